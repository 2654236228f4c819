/* The links that the operator has set for everybody, also before the login ('': none), and the version. */
import { useQuery } from '@tanstack/react-query'

import { get } from '../api/client'

export interface About { contact: string, help: string, version: string }

/* Only pages are opened in another tab: for a mail, the tab would stay empty. */
export const linkTo = (href: string) =>
  ({ href, ...(/^https?:/i.test(href) && { target: '_blank', rel: 'noreferrer' }) })

export function useAbout () {
  const { data } = useQuery({
    queryKey: ['about'], queryFn: () => get<About>('/console/about'), staleTime: Infinity, retry: false
  })
  return data
}
