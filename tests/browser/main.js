/* Runs all browser tests one after the other; with arguments, only tests whose names contain one of
 * them. */
'use strict'
require('./test_shell')
require('./test_chat')
require('./test_webhooks')
require('./test_devices')
require('./test_groups')
require('./test_bulk')
require('./test_organizations')
require('./test_overview')
require('./test_account')
require('./test_addresses')
require('./test_breaks')
require('./test_threats')
require('./test_texts')
require('./test_types')
require('./test_reference')
require('./test_admin')
