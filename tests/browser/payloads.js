/* Texts that run a script if a page treats them as more than text. The script would set `hit`. */
'use strict'
module.exports = [
  '<script>hit=1</script>',
  '"><img src=x onerror=hit=1>',
  "'\"><svg/onload=hit=1>",
  '<iframe src="javascript:parent.hit=1"></iframe>',
  'javascript:hit=1',
  '</textarea><script>hit=1</script>',
  '</script><script>hit=1</script>\u2028hit=1',
  '<math><mtext><style><img src=x onerror=hit=1></style></mtext></math>',
  '<a href="data:text/html,<script>hit=1</script>">click</a>',
  '{{constructor.constructor("hit=1")()}} ${hit=1} <%= hit=1 %>',
  '<base href="//evil.example/"><object data="//evil.example">',
  '%3Cscript%3Ehit%3D1%3C%2Fscript%3E &lt;script&gt;hit=1&lt;/script&gt;'
]
