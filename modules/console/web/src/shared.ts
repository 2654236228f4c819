/* The code that both the frame and the views use. Every file imports this one, so esbuild makes one script of it, not ten. */
import './chat/drafts'
import './chat/live'
import './help/about'
import './help/find'
import './help/keys'
import './organization'
import './ui/toast'
import './webhooks/health'
