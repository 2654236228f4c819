/* The audit log, for Admins. The filters are in the address. */
import { Download, ScrollText, X } from 'lucide-react'

import { ApiError, download, query } from '../api/client'
import type { AuditRecord } from '../api/types'
import { useOrganizations } from '../organization'
import { useValues } from '../router'
import { named, t } from '../texts/texts'
import { useAction } from '../ui/action'
import { usePages, useSettled } from '../ui/pages'
import { Typed } from '../ui/typed'
import { Badge, Button, Empty, Failed, Field, Loading, Mail, More, Table } from '../ui/ui'
import { Period } from '../webhooks/deliveries'
import { Moment } from '../webhooks/parts'

const PATH = '/api/admin/audit-log'
const outcomes = ['succeeded', 'refused', 'failed', 'unknown'] as const
const none = { account: '', action: '', target: '', status: '', since: '', until: '' }

/* The same classes as the filter `status` of the API. */
function outcomeOf (status: number | null): typeof outcomes[number] {
  if (status === null) return 'unknown'
  if (status < 400) return 'succeeded'
  return status < 500 ? 'refused' : 'failed'
}

const tones = { succeeded: 'good', refused: 'wait', failed: 'bad', unknown: 'off' } as const

function Row ({ record }: { record: AuditRecord }) {
  const { at, account, email, organization, address, action, path, requestId, status, fields } = record
  const outcome = outcomeOf(status)
  const { nameOf } = useOrganizations()
  const id = action.replace(/\W+/g, '_')
  const words = named('did', id) // a module that is not part of busbar has its own actions

  return (
    <tr>
      <td><Moment at={at} /></td>
      <td>
        {account === null && email !== null && <><small>({t('audit.claimed')})</small>{' '}</>}
        <bdi>{email === null ? '–' : <Mail of={email} />}</bdi>
        {organization !== null && <><br /><small>{nameOf(organization)}</small></>}
        <br />
        <small>{address}</small>
      </td>
      <td className='wide'>
        <details>
          <summary>
            {words !== id && <>{words}<br /></>}
            <code><bdi>{action}</bdi></code> {!action.endsWith(` ${path}`) && <small><bdi>{path}</bdi></small>}
          </summary>
          <pre>{JSON.stringify({ fields, organization, requestId }, null, 2)}</pre>
        </details>
      </td>
      <td><Badge tone={tones[outcome]}>{t(`audit.${outcome}`)}</Badge> {status !== null && <small>{status}</small>}</td>
    </tr>
  )
}

export default function Audit () {
  const [values, change] = useValues('account', 'action', 'target', 'status', 'since', 'until')
  const { chosen } = useOrganizations()
  const filter = useSettled(query({ ...values, organizationId: chosen }))
  const { list, all } = usePages<AuditRecord>('audit', `${PATH}${filter}`)
  const csv = useAction({ mutationFn: () => download(`${PATH}/export.csv${filter}`, 'audit-log.csv') })
  const filtered = Object.values(values).some(Boolean)
  const clear = <Button icon={X} onClick={() => change(none)}>{t('hooks.clear')}</Button>
  const search = (name: 'account' | 'action' | 'target', maxLength: number) => (
    <Field label={t(`audit.${name}`)}>
      {(props) => (
        <Typed {...props} type='search' maxLength={maxLength} value={values[name]}
          change={(text) => change({ [name]: text })} />
      )}
    </Field>
  )

  if (list.error instanceof ApiError && list.error.status === 404) {
    return (
      <div className='page'>
        <header><h1>{t('nav.audit')}</h1></header>
        <Empty icon={ScrollText}>{t('audit.notLoaded')}</Empty>
      </div>
    )
  }
  return (
    <div className='page'>
      <header>
        <h1>{t('nav.audit')}</h1>
        <Button icon={Download} disabled={csv.isPending} onClick={() => csv.mutate()}>{t('hooks.export')}</Button>
      </header>
      {csv.isError && <Failed error={csv.error} />}
      <div className='filters'>
        {search('account', 254)}
        {search('action', 100)}
        {search('target', 200)}
        <Field label={t('audit.status')}>
          {(props) => (
            <select {...props} value={values.status} onChange={(e) => change({ status: e.target.value })}>
              <option value=''>{t('accounts.all')}</option>
              {outcomes.map((name) => <option key={name} value={name}>{t(`audit.${name}`)}</option>)}
            </select>
          )}
        </Field>
        <Period since={values.since} until={values.until} change={change} />
        {filtered && clear}
      </div>
      {list.isPending && <Loading />}
      {list.isError && <Failed error={list.error} again={() => void list.refetch()} />}
      {list.isSuccess && all.length === 0 && (
        <Empty icon={ScrollText} action={filtered && clear}>
          {t(filter === '' ? 'audit.empty' : 'audit.noneSuch')}
        </Empty>
      )}
      {all.length > 0 && (
        <Table label={t('nav.audit')} busy={list.isPlaceholderData}
          head={[t('state.time'), t('audit.who'), t('audit.action'), t('audit.status')]}>
          {all.map((record) => <Row key={record.id} record={record} />)}
        </Table>
      )}
      <More of={list} />
    </div>
  )
}
