/*
 * A picture among the documents. It is drawn on a canvas from bytes that were fetched with the token: the
 * page loads no picture by its address, and a file that is not a picture is never interpreted as anything
 * else.
 */
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'

import { send } from '../api/client'
import type { Document } from '../api/types'
import { t } from '../texts/texts'
import { Button, Dialog } from '../ui/ui'

const MOST_BYTES = 4 * 1048576 // larger pictures are fetched only on demand

export const isPicture = ({ type }: Document) => /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type)

function Canvas ({ bitmap, label, width, height }: {
  bitmap: ImageBitmap, label: string, width: number, height: number
}) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const scale = Math.min(1, width / bitmap.width, height / bitmap.height)

  useEffect(() => {
    const at = canvas.current
    if (!at) return
    at.width = Math.max(1, Math.round(bitmap.width * scale))
    at.height = Math.max(1, Math.round(bitmap.height * scale))
    at.getContext('2d')?.drawImage(bitmap, 0, 0, at.width, at.height)
  }, [bitmap, scale])
  return label ? <canvas ref={canvas} role='img' aria-label={label} /> : <canvas ref={canvas} aria-hidden='true' />
}

export function Picture ({ path, document }: { path: string, document: Document }) {
  const [large, setLarge] = useState(false)
  const bitmap = useQuery({
    queryKey: ['picture', path, document.id],
    queryFn: async () => createImageBitmap(await (await send('GET', `${path}/documents/${document.id}`)).blob()),
    enabled: document.size <= MOST_BYTES,
    staleTime: Infinity,
    retry: false
  })

  if (!bitmap.data) return null
  return (
    <>
      <button type='button' className='thumbnail' aria-label={t('devices.look', { name: document.name })}
        onClick={() => setLarge(true)}>
        <Canvas bitmap={bitmap.data} label='' width={120} height={72} />
      </button>
      {large && (
        <Dialog title={document.name} close={() => setLarge(false)} wide>
          <div className='picture'>
            <Canvas bitmap={bitmap.data} label={document.name} width={1600} height={1200} />
          </div>
          <div className='actions'><Button kind='main' onClick={() => setLarge(false)}>{t('do.close')}</Button></div>
        </Dialog>
      )}
    </>
  )
}
