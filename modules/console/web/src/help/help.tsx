/* Help: what the roles may do, the words of the service, the keys, and links. */
import { useEffect } from 'react'

import { useValues } from '../router'
import { useMe } from '../session'
import { named, t } from '../texts/texts'
import { Badge, Table } from '../ui/ui'
import { linkTo, useAbout } from './about'
import { Keys } from './keys'

const roles = ['Admin', 'OrganizationAdmin', 'ApiUser', 'DeviceOwner', 'Buyer', 'User'] as const
const words = [
  'device', 'reading', 'History', 'Delta', 'group', 'cycle', 'certificate', 'carried', 'threshold', 'ceiling', 'yield',
  'refused', 'voided', 'coverage', 'webhook', 'delivery', 'abandoned', 'replay'
] as const

export default function Help () {
  const me = useMe()
  const about = useAbout()
  const [{ word: wanted }] = useValues('word')

  useEffect(() => document.getElementById(`word-${wanted}`)?.scrollIntoView({ block: 'center' }), [wanted])
  return (
    <div className='page'>
      <header>
        <h1>{t('nav.help')}</h1>
        <div className='row'>
          {about?.contact && <a className='button' {...linkTo(about.contact)}>{t('login.contact')}</a>}
          {about?.help && <a className='button' {...linkTo(about.help)}>{t('help.docs')}</a>}
          <a className='button' href='/swagger' target='_blank' rel='noreferrer'>{t('nav.reference')}</a>
        </div>
      </header>
      <h2>{t('help.roles')}</h2>
      <Table label={t('help.roles')} head={[t('accounts.role'), t('help.may')]}>
        {roles.map((role) => (
          <tr key={role}>
            <td>{t(`role.${role}`)} {role === me.role && <Badge tone='good'>{t('help.yours')}</Badge>}</td>
            <td className='wide'>{named('may', role)}</td>
          </tr>
        ))}
      </Table>
      <h2>{t('help.words')}</h2>
      <dl className='panel words'>
        {words.map((word) => (
          <div key={word} id={`word-${word}`} aria-current={word === wanted ? 'true' : undefined}>
            <dt>{named('word', word)}</dt>
            <dd>{named('means', word)}</dd>
          </div>
        ))}
      </dl>
      <h2>{t('help.keys')}</h2>
      <Keys />
    </div>
  )
}
