/*
 * Always shows the document of this host; the query of the page is not read. The pages of `make docs` contain
 * their document (scripts/make-reference); there is no host on which requests could be tried.
 */
window.addEventListener('DOMContentLoaded', () => {
  const own = window.busbarReference

  if (!own) {
    const back = document.createElement('a')
    back.className = 'back'
    back.href = '/console'
    back.textContent = 'Console'
    document.body.prepend(back)
  }
  window.SwaggerUIBundle({
    ...(own ? { spec: own, supportedSubmitMethods: [] } : { url: '/swagger-json' }),
    dom_id: '#reference',
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: 'none',
    filter: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    tryItOutEnabled: false,
    validatorUrl: null
  })
})
