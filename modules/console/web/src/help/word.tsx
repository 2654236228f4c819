/* A link from a view to the explanation of a word in Help. */
import { CircleQuestionMark } from 'lucide-react'

import { toWith } from '../router'
import { named, t } from '../texts/texts'

export function Word ({ of }: { of: string }) {
  const label = t('help.what', { word: named('word', of) })

  return (
    <a className='what' href={toWith({ word: of }, 'help')} aria-label={label} title={label}><CircleQuestionMark /></a>
  )
}
