/*
 * The user's choices for this browser: language, theme, density, time zone, times as "5 minutes ago", Enter for a new
 * line in messages, a sound for new messages, and no keyboard shortcuts of one character; and the ids of the accounts
 * that want notifications of messages. Nothing else about an account is stored.
 */
export interface Preferences {
  language?: string, theme?: 'light' | 'dark', density?: 'compact', zone?: 'UTC', times?: 'relative', enter?: 'line',
  sound?: true, keys?: false, notify?: number[]
}

const KEY = 'busbar.preferences'

function read (): Preferences {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, unknown>
    const { language, theme, density, zone, times, enter, sound, keys, notify } = stored
    return {
      language: typeof language === 'string' ? language : undefined,
      theme: theme === 'light' || theme === 'dark' ? theme : undefined,
      density: density === 'compact' ? density : undefined,
      zone: zone === 'UTC' ? zone : undefined,
      times: times === 'relative' ? times : undefined,
      enter: enter === 'line' ? enter : undefined,
      sound: sound === true ? sound : undefined,
      keys: keys === false ? keys : undefined,
      notify: Array.isArray(notify) ? notify.filter((id) => typeof id === 'number') : []
    }
  } catch {
    return {}
  }
}

export let preferences = read()

export function prefer (some: Preferences) {
  preferences = { ...preferences, ...some }
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences))
  } catch { /* the browser stores nothing; the choice holds until the page is closed */ }
  show()
}

/* Choices made in another tab take effect in this tab, too. */
addEventListener('storage', ({ key }) => {
  if (key !== KEY) return
  preferences = read()
  show()
})

/* The colors of ui.css follow color-scheme, and its distances follow data-density. */
export function show () {
  document.documentElement.style.colorScheme = preferences.theme ?? ''
  document.documentElement.dataset.density = preferences.density ?? ''
}
