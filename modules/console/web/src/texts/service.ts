/*
 * Sentences of the service's own tables, which are English in its document, in other languages: modules, events and the
 * fields of events. scripts/lint-texts compares them with the modules.
 */
import { language } from './texts'

const sentences: Record<string, Record<string, string>> = {
  de: {
    'The audit log: who changed what, from where, when, and with which outcome.': 'Das Prüfprotokoll: wer was geändert hat, von wo, wann und mit welchem Ergebnis.',
    'Accounts, organizations, logins and tokens.': 'Konten, Organisationen, Anmeldungen und Token.',
    'Bulk uploads: upload a CSV file, check its rows, confirm, and read the results.': 'Massenimporte: eine CSV-Datei hochladen, ihre Zeilen prüfen, bestätigen und die Ergebnisse lesen.',
    'Device groups, and the log of issued certificates.': 'Gruppen von Anlagen und das Verzeichnis ausgestellter Zertifikate.',
    'Conversations between external platforms and administrators, with unread counts and a live stream.': 'Unterhaltungen zwischen externen Plattformen und der Verwaltung, mit der Zahl ungelesener Nachrichten und neuen Nachrichten ohne Verzögerung.',
    'The web console: chat, webhooks, devices, bulk uploads, certificates and accounts.': 'Die Konsole im Browser: Chat, Webhooks, Anlagen, Massenimporte, Zertifikate und Konten.',
    'Registration of devices that generate renewable energy, and their documents.': 'Anmeldung von Anlagen, die erneuerbare Energie erzeugen, und ihre Dokumente.',
    'This reference, for people and for generators of clients.': 'Die API-Referenz, für Menschen und für Generatoren von Clients.',
    'Liveness, readiness and the state of the dependencies.': 'Ob der Dienst läuft und bereit ist, und der Zustand seiner Abhängigkeiten.',
    'Mails of other modules, sent over SMTP from an outbox in the database.': 'Mails anderer Module, mit SMTP aus einem Postausgang in der Datenbank gesendet.',
    'Metrics for Prometheus.': 'Metriken für Prometheus.',
    'Publishes events to NATS JetStream.': 'Veröffentlicht Ereignisse in NATS JetStream.',
    'Meter readings, checked against the energy that a device can plausibly generate.': 'Messwerte, verglichen mit der Energie, die eine Anlage plausibel erzeugen kann.',
    'HTTP requests of other modules to other servers.': 'HTTP-Anfragen anderer Module an andere Server.',
    'Signed webhooks: subscriptions to events, and their deliveries.': 'Signierte Webhooks: Abonnements von Ereignissen und deren Zustellungen.',
    'A message was added to a conversation.': 'Zu einer Unterhaltung kam eine Nachricht hinzu.',
    'A conversation was started.': 'Eine Unterhaltung wurde begonnen.',
    'A device was registered.': 'Eine Anlage wurde angemeldet.',
    'Fields of a device were changed, or documents were added.': 'Felder einer Anlage wurden geändert, oder Dokumente kamen hinzu.',
    'A device was deleted, with its readings and documents.': 'Eine Anlage wurde mit ihren Messwerten und Dokumenten gelöscht.',
    'Size in bytes.': 'Größe in Bytes.',
    'Media type, detected from the content.': 'Medientyp, am Inhalt erkannt.',
    'The file name as it was sent.': 'Der Name der Datei, wie er gesendet wurde.',
    'The files of the message; absent if there are none.': 'Die Dateien der Nachricht; fehlt, wenn es keine gibt.',
    'Names of the fields that were sent.': 'Namen der gesendeten Felder.',
    'Readings of a device were stored. One event covers all readings of one type in a request.': 'Messwerte einer Anlage wurden gespeichert. Ein Ereignis umfasst alle Messwerte einer Art in einer Anfrage.',
    'Number of readings.': 'Zahl der Messwerte.',
    'Start of the first reading.': 'Beginn des ersten Messwerts.',
    'End of the last reading.': 'Ende des letzten Messwerts.',
    'Sum of the readings in Wh.': 'Summe der Messwerte in Wh.',
    'Always Wh.': 'Immer Wh.',
    'A certificate for a History reading or for a cycle of a group was issued.': 'Ein Zertifikat für einen History-Messwert oder für einen Zyklus einer Gruppe wurde ausgestellt.',
    'null for certificates of History readings.': 'null bei Zertifikaten für History-Messwerte.',
    'Number of log entries of the certificate.': 'Zahl der Einträge des Zertifikats.',
    'All rows of a bulk upload are done, or it was cancelled.': 'Alle Zeilen eines Massenimports sind erledigt, oder er wurde abgebrochen.',
    'How the bulk upload ended: finished or cancelled.': 'Wie der Massenimport endete: finished (fertig) oder cancelled (abgebrochen).',
    'A test of the webhook, sent only by `POST /api/chat/webhooks/{id}/test`.': 'Ein Test des Webhooks, den nur `POST /api/chat/webhooks/{id}/test` sendet.',
    'Always ping.': 'Immer ping.',
    'When the test was called.': 'Wann der Test ausgelöst wurde.',
    'The receiver of a webhook fails. Sent to the other webhooks of its owner.': 'Der Empfänger eines Webhooks scheitert. Geht an die anderen Webhooks des Besitzers.',
    'The owner.': 'Der Besitzer.',
    'The first of the failed attempts.': 'Der erste der gescheiterten Versuche.',
    'null: none is known.': 'null: keiner ist bekannt.',
    'An attempt of a failing webhook was successful. Sent to the other webhooks of its owner.': 'Ein Versuch eines scheiternden Webhooks war erfolgreich. Geht an die anderen Webhooks des Besitzers.',
    'The first of the attempts that had failed.': 'Der erste der Versuche, die gescheitert waren.',
    'A webhook was disabled by its disablePolicy. Sent to the other webhooks of its owner.': 'Ein Webhook wurde durch seine disablePolicy abgeschaltet. Geht an die anderen Webhooks des Besitzers.',
    'As disabledReason of the webhook.': 'Wie disabledReason des Webhooks.',
    'The first of the failed attempts; null: the webhook was not failing.': 'Der erste der gescheiterten Versuche; null: der Webhook ist nicht gescheitert.',
    'All attempts of deliveries have failed; at most one event per webhook and hour. Sent to the other webhooks of its owner.': 'Alle Versuche von Zustellungen sind gescheitert; höchstens ein Ereignis je Webhook und Stunde. Geht an die anderen Webhooks des Besitzers.',
    'Deliveries that were abandoned since the previous event.': 'Zustellungen, die seit dem vorigen Ereignis aufgegeben wurden.',
    'The previous event; null: this is the first one.': 'Das vorige Ereignis; null: dies ist das erste.',
    'The client certificate of a webhook expires within 14 days. Sent once to its owner.': 'Das Client-Zertifikat eines Webhooks läuft in weniger als 14 Tagen ab. Geht einmal an den Besitzer.'
  }
}

/* A sentence in the language of the page; unchanged if it is of a module that is not part of busbar. */
export const translated = (sentence: string) => sentences[language]?.[sentence] ?? sentence
