/*
 * A picture among documents or attachments. It is drawn on a canvas from bytes that were fetched with the token: the
 * page loads no picture by its address, and a file that is not a picture is never interpreted as anything
 * else.
 */
import { useQuery } from '@tanstack/react-query'
import { Eye } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'

import { ApiError, send } from '../api/client'
import { t } from '../texts/texts'
import { Button, Dialog, Failed, Loading } from '../ui/ui'

const MOST_BYTES = 4 * 1048576 // larger pictures are fetched only on demand

interface PictureFile { name: string, size: number }

export const isPicture = (type: string) => /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type)

const useBitmap = (path: string, enabled: boolean) => useQuery({
  queryKey: ['picture', path],
  queryFn: async () => {
    const bytes = await (await send('GET', path)).blob()
    return createImageBitmap(bytes).catch(() => { throw new ApiError(200, t('devices.noPicture')) })
  },
  enabled,
  staleTime: Infinity,
  retry: false
})

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

function Large ({ path, document, close }: { path: string, document: PictureFile, close: () => void }) {
  const bitmap = useBitmap(path, true)

  return (
    <Dialog title={document.name} close={close} wide>
      {bitmap.isPending && <Loading />}
      {bitmap.isError && <Failed error={bitmap.error} again={() => void bitmap.refetch()} />}
      {bitmap.data && (
        <div className='picture'>
          <Canvas bitmap={bitmap.data} label={document.name} width={1600} height={1200} />
        </div>
      )}
      <div className='actions'><Button kind='main' onClick={close}>{t('do.close')}</Button></div>
    </Dialog>
  )
}

/* A small picture, or a button if the file is large or cannot be shown. Both open the picture. `path`: of the file. */
export function Picture ({ path, document }: { path: string, document: PictureFile }) {
  const [large, setLarge] = useState(false)
  const { data, isLoading } = useBitmap(path, document.size <= MOST_BYTES)
  const label = t('devices.look', { name: document.name })

  if (isLoading) return null
  return (
    <>
      {data ? (
        <button type='button' className='thumbnail' aria-label={label} onClick={() => setLarge(true)}>
          <Canvas bitmap={data} label='' width={120} height={72} />
        </button>
      ) : <Button kind='quiet' icon={Eye} aria-label={label} onClick={() => setLarge(true)} />}
      {large && <Large path={path} document={document} close={() => setLarge(false)} />}
    </>
  )
}
