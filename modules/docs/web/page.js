/*
 * Shows the document of this host and no other: the query of the page is not read. The pages of `make docs`
 * bring theirs along (scripts/make-reference), and there is no host that requests could be tried on.
 */
window.addEventListener('DOMContentLoaded', () => {
  const own = window.busbarReference

  window.SwaggerUIBundle({
    ...(own ? { spec: own, supportedSubmitMethods: [] } : { url: '/swagger-json' }),
    dom_id: '#reference',
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: 'list',
    filter: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    tryItOutEnabled: false,
    validatorUrl: null
  })
})
