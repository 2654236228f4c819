/*
 * The language, theme and time zone that the user has chosen for this browser, and whether it notifies of messages.
 * Only choices are stored, and nothing about the account.
 */
export interface Preferences { language?: string, theme?: 'light' | 'dark', zone?: 'UTC', notify?: boolean }

const KEY = 'busbar.preferences'

function read (): Preferences {
  try {
    const { language, theme, zone, notify } = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Record<string, unknown>
    return {
      language: typeof language === 'string' ? language : undefined,
      theme: theme === 'light' || theme === 'dark' ? theme : undefined,
      zone: zone === 'UTC' ? zone : undefined,
      notify: notify === true
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

/* The colors of ui.css follow color-scheme. */
export function show () {
  document.documentElement.style.colorScheme = preferences.theme ?? ''
}
