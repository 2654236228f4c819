import { createRoot } from 'react-dom/client'

import 'uplot/dist/uPlot.min.css'
import './ui/ui.css'
import './app.css'
import './chat/chat.css'
import './webhooks/webhooks.css'
import './views.css'
import './overview/overview.css'
import { App } from './app'
import { show } from './preferences'
import { language, t } from './texts/texts'

document.documentElement.lang = language
show()
document.title = t('app.name')
for (const type of ['dragover', 'drop'] as const)
  addEventListener(type, (event) => {
    // no view accepts the files here: without this, the browser would show the file instead of the console
    const { dataTransfer, defaultPrevented, target } = event
    if (defaultPrevented || !dataTransfer?.types.includes('Files')) return
    if (target instanceof Element && target.matches('[type=file]')) return
    event.preventDefault()
    dataTransfer.dropEffect = 'none'
  })
createRoot(document.getElementById('root')!).render(<App />)
