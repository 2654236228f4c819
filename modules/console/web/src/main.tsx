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
createRoot(document.getElementById('root')!).render(<App />)
