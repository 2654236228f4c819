/*
 * Always shows the document of this host; the query of the page is not read. The pages of `make docs` contain
 * their document (scripts/make-reference); there is no host on which requests could be tried.
 */
const STREAM_MS = 3000

/* Returns the first seconds of a stream of events as a whole response, because the page shows a response at its end. */
async function request (url, options) {
  const answer = await fetch(url, options)
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return answer
  const reader = answer.body.getReader()
  const parts = []
  setTimeout(() => reader.cancel(), STREAM_MS)
  for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value)
  return new Response(new Blob(parts), { status: answer.status, headers: answer.headers })
}

window.addEventListener('DOMContentLoaded', () => {
  const own = window.busbarReference

  if (!own) {
    const back = document.createElement('a')
    back.className = 'back'
    back.href = '/console'
    back.textContent = 'Console'
    document.body.prepend(back)
  }
  const ui = window.SwaggerUIBundle({
    ...(own ? { spec: own, supportedSubmitMethods: [] } : { url: '/swagger-json' }),
    dom_id: '#reference',
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: 'none',
    filter: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    requestInterceptor: (asked) => Object.assign(asked, { userFetch: request }),
    responseInterceptor: (answer) => {
      /* The page then sends the token of the login, without Authorize. It keeps the token only in memory. */
      if (answer.ok && /\/api\/auth\/(login|getAccess)$/.test(answer.url)) ui.preauthorizeApiKey('bearer', JSON.parse(answer.text).accessToken)
      return answer
    },
    tryItOutEnabled: false,
    validatorUrl: null
  })
})
