/* Shown instead of a view that could not be loaded or that threw an error. Other views keep working. */
import { Component, type ReactNode } from 'react'

import { t } from '../texts/texts'
import { Button } from './ui'

interface Props { title: string, children: ReactNode, again: () => void }

export class Boundary extends Component<Props, { broken: boolean }> {
  override state = { broken: false }

  static getDerivedStateFromError () { return { broken: true } }

  override render () {
    if (!this.state.broken) return this.props.children
    return (
      <div className='page'>
        <header><h1>{this.props.title}</h1></header>
        <div className='failed' role='alert'>
          <p>{t('state.broken')}</p>
          <div className='row'>
            <Button onClick={() => { this.props.again(); this.setState({ broken: false }) }}>{t('state.retry')}</Button>
            <Button onClick={() => location.reload()}>{t('state.reload')}</Button>
          </div>
        </div>
      </div>
    )
  }
}
