/*
 * The types of the API's responses, under the console's names for them. document.ts is generated from the
 * API's document by tests/browser/types.js. For accounts the document does not say which members are always
 * present: all are.
 */
import type { paths } from './document'

type Json<Answer> = Answer extends { content: { 'application/json': infer Body } } ? Body : never

/* The body of an operation's response. */
type Answer<Path extends keyof paths, Method extends keyof paths[Path]> =
  paths[Path][Method] extends { responses: infer Answers } ? Json<Answers[keyof Answers]> : never

type ItemOf<List> = List extends (infer Item)[] ? Item : never

export type Account = Required<ItemOf<Answer<'/api/admin/users', 'get'>>>
export type Own = Required<Answer<'/api/auth/me', 'get'>>
export type Role = Account['role']
export type Organization = Required<ItemOf<Answer<'/api/admin/organizations', 'get'>>>
export type AuditRecord = ItemOf<Answer<'/api/admin/audit-log', 'get'>>
export type Session = ItemOf<Answer<'/api/auth/sessions', 'get'>>
export type Client = Required<ItemOf<Answer<'/api/auth/clients', 'get'>>>
export type MadeClient = Required<Answer<'/api/auth/clients', 'post'>>

export type Conversation = ItemOf<Answer<'/api/chat/conversations', 'get'>>
export type Found = ItemOf<Answer<'/api/chat/search', 'get'>>
export type Started = Answer<'/api/chat/conversations/start', 'post'>['conversation']
export type Unread = Answer<'/api/chat/unread-count/{email}', 'get'>
export type Entry = ItemOf<Answer<'/api/chat/chain/{headUuid}', 'get'>>

/* The document does not name the members of these objects. */
export type Webhook = Omit<ItemOf<Answer<'/api/chat/webhooks', 'get'>>, 'filter' | 'headers' | 'retryPolicy' | 'disablePolicy'> & {
  filter?: Record<string, unknown>
  headers?: Record<string, string>
  retryPolicy?: 'default' | 'standard' | { delays: number[] }
  disablePolicy?: { after: string }
}
export type Consumer = ItemOf<Answer<'/api/chat/webhooks/{id}/consumers', 'get'>>
export type Statistics = ItemOf<Answer<'/api/chat/webhooks/statistics', 'get'>>
export type Delivery = ItemOf<Answer<'/api/chat/webhooks/{id}/deliveries', 'get'>>
export type Sent = Answer<'/api/chat/webhooks/{id}/deliveries/{deliveryId}', 'get'>
export type Attempt = ItemOf<Delivery['attempts']>
export type Hour = ItemOf<Answer<'/api/chat/webhooks/{id}/statistics', 'get'>>
export type Replay = Answer<'/api/chat/webhooks/{id}/replay', 'get'>
export type Filtered = Answer<'/api/chat/webhooks/{id}/filter/test', 'post'>
export type Tested = Answer<'/api/chat/webhooks/{id}/test', 'post'>

export type Device = Answer<'/api/device/{externalId}', 'get'>
export type Duplicate = ItemOf<Answer<'/api/admin/device-duplicates', 'get'>>
export type Document = ItemOf<Answer<'/api/device/{externalId}/documents', 'get'>>
export type Read = ItemOf<Answer<'/api/meter-reads/new/{externalId}', 'get'>>
export type LatestRead = ItemOf<Answer<'/api/meter-reads/latestread', 'get'>>
export type RefusedRead = ItemOf<Answer<'/api/meter-reads/refused', 'get'>>
export type Total = ItemOf<Answer<'/api/meter-reads/new/{externalId}/totals', 'get'>>
export type Coverage = Answer<'/api/device/{externalId}/coverage', 'get'>
export type Explained = Answer<'/api/certificate-log/explain', 'get'>
export type Certificate = ItemOf<Answer<'/api/certificate-log', 'get'>>
export type IssuedCertificate = Answer<'/api/certificate-log/{id}/certificate', 'get'>
export type CertificateTotal = ItemOf<Answer<'/api/certificate-log/totals', 'get'>>
export type Group = ItemOf<Answer<'/api/device-group', 'get'>>
export type SharedGroup = ItemOf<Answer<'/api/device-group/shared', 'get'>>
export type Share = ItemOf<Answer<'/api/device-group/{id}/share', 'get'>>


export type BulkUpload = ItemOf<Answer<'/api/bulk-upload', 'get'>>
export type BulkLog = Answer<'/api/bulk-upload/bulk-upload-log/{bulkUploadId}', 'get'>
export type BulkRow = ItemOf<BulkLog['rows']>

/* The document has no names for the host's dependencies, because they depend on the loaded modules. */
export interface Health {
  status: 'ok' | 'error'
  details: Record<string, { status: 'up' | 'down', latencyMs?: number }>
}
