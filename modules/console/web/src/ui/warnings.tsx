/* The warnings of all responses, shown below the navigation in every view until they are closed. */
import { useEffect, useState } from 'react'

import { onWarnings, type Warning } from '../api/client'
import { t } from '../texts/texts'
import { Button } from './ui'

const textOf = ({ of, text }: Warning) => of === null ? text : `${of}: ${text}`

export function Warnings () {
  const [texts, setTexts] = useState<string[]>([])

  useEffect(() => {
    onWarnings((warnings) => setTexts((before) => [...new Set([...before, ...warnings.map(textOf)])]))
    return () => onWarnings(() => {})
  }, [])
  return (
    <div role='status'>
      {texts.length > 0 && (
        <section className='warnings' aria-label={t('warnings.title')}>
          <div>
            <strong>{t('warnings.text')}</strong>
            <ul>{texts.map((text) => <li key={text}>{text}</li>)}</ul>
          </div>
          <Button onClick={() => setTexts([])}>{t('do.close')}</Button>
        </section>
      )}
    </div>
  )
}
