/* The warnings of all responses, shown below the navigation in every view until they are closed. */
import { useEffect, useState } from 'react'

import { onWarnings, type Warning } from '../api/client'
import { asProblem, labelOf } from '../texts/problems'
import { t } from '../texts/texts'
import { Button } from './ui'

const textOf = (one: Warning) => [one.of, labelOf(one.field), asProblem(one)].filter(Boolean).join(': ')

export function Warnings () {
  const [all, setAll] = useState<Warning[]>([])
  const texts = [...new Set(all.map(textOf))]

  useEffect(() => {
    onWarnings((warnings) => setAll((before) => [...before, ...warnings]))
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
          <Button onClick={() => setAll([])}>{t('do.close')}</Button>
        </section>
      )}
    </div>
  )
}
