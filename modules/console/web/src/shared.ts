/* What the frame has in common with views. Every file imports this one, so that it becomes one script, not ten. */
import './chat/drafts'
import './chat/live'
import './help/find'
import './help/keys'
import './organization'
import './ui/toast'
import './webhooks/health'
