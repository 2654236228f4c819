/*
 * The coverage of a device: its readings by reason, the gaps between them, and the explanation of a moment.
 */
import { useQuery } from '@tanstack/react-query'
import { useState, type FormEvent } from 'react'

import { get, query } from '../api/client'
import type { Coverage, Explained } from '../api/types'
import { Word } from '../help/word'
import { named, t } from '../texts/texts'
import { asEnergy, asIso, asNumber } from '../ui/format'
import { Button, Empty, Failed, Field, Loading, Period, Table } from '../ui/ui'

const SHOWN = 20 // gaps and readings; the API lists up to 1,000

function Explanation ({ of }: { of: Explained }) {
  const entries = of.readings.find(({ covers }) => covers)?.entries ?? []
  const discarded = of.readings.some(({ covers }) => covers) ? undefined : of.discarded[0]
  return (
    <div role='status'>
      <p><strong>{named('why', of.reason)}</strong></p>
      {discarded && <p>{discarded.problem}</p>}
      {of.cycle && of.group && (
        <p>{t('coverage.cycle', { group: of.group.name })} <Period start={of.cycle.start} end={of.cycle.end} /></p>
      )}
      {entries.length > 0 && (
        <ul>
          {entries.map((entry, i) => (
            <li key={i}>
              {asEnergy(entry.readvalue_watthour)}: {named('cert', entry.status)}{' '}
              <code>{entry.certificateTransactionUID}</code>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function Why ({ device }: { device: number }) {
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState<string>()
  const answer = useQuery({
    queryKey: ['explain', device, at], enabled: at !== undefined,
    queryFn: () => get<Explained>(`/api/certificate-log/explain${query({ deviceId: device, at })}`)
  })

  function ask (event: FormEvent) {
    event.preventDefault()
    if (!typed) return
    const moment = asIso(typed)
    if (moment === at) void answer.refetch()
    setAt(moment)
  }

  return (
    <>
      <form className='filters' onSubmit={ask}>
        <Field label={t('coverage.at')} date={typed}>
          {(props) => (
            <input {...props} type='datetime-local' required value={typed} onChange={(e) => setTyped(e.target.value)} />
          )}
        </Field>
        <Button type='submit'>{t('coverage.explain')}</Button>
      </form>
      {answer.isLoading && <Loading />}
      {answer.isError && <Failed error={answer.error} again={() => void answer.refetch()} />}
      {answer.data && <Explanation of={answer.data} />}
    </>
  )
}

function Lists ({ of }: { of: Coverage }) {
  const gaps = of.gaps.slice(0, SHOWN)
  const left = of.notCertified.slice(0, SHOWN)
  const energy = { text: t('certs.energy'), number: true }
  return (
    <>
      {of.sums.length === 0 ? <Empty>{t('coverage.nothing')}</Empty> : (
        <Table label={t('coverage.sums')} small
          head={[t('coverage.reason'), { text: t('coverage.reads'), number: true }, energy]}>
          {of.sums.map((sum) => (
            <tr key={sum.reason}>
              <td className='wide'>{named('why', sum.reason)}</td>
              <td className='number'>{asNumber(sum.reads)}</td>
              <td className='number'>{asEnergy(sum.value)}</td>
            </tr>
          ))}
        </Table>
      )}
      {left.length > 0 && (
        <>
          <h3>{t('coverage.left')}</h3>
          <Table label={t('coverage.left')} head={[t('certs.period'), energy, t('coverage.reason')]}>
            {left.map((read) => (
              <tr key={read.type + read.endDate}>
                <td><Period start={read.startDate} end={read.endDate} /></td>
                <td className='number'>{asEnergy(read.value)}</td>
                <td className='wide'>{named('why', read.reason)}</td>
              </tr>
            ))}
          </Table>
        </>
      )}
      {gaps.length > 0 && of.sums.length > 0 && (
        <>
          <h3>{t('coverage.gaps')}</h3>
          <ul>{gaps.map((gap) => <li key={gap.startDate}><Period start={gap.startDate} end={gap.endDate} /></li>)}</ul>
          {of.gaps.length > SHOWN && <small>{t('state.shown', { n: SHOWN, all: of.gaps.length })}</small>}
        </>
      )}
    </>
  )
}

export function Coverage ({ name, device }: { name: string, device: number }) {
  const coverage = useQuery({
    queryKey: ['coverage', name], queryFn: () => get<Coverage>(`/api/device/${encodeURIComponent(name)}/coverage`)
  })

  return (
    <section className='panel'>
      <h2>{t('coverage.title')} <Word of='coverage' /></h2>
      {coverage.isPending && <Loading />}
      {coverage.isError && <Failed error={coverage.error} again={() => void coverage.refetch()} />}
      {coverage.data && <Lists of={coverage.data} />}
      <Why device={device} />
    </section>
  )
}
