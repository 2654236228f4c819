// A conversation by the TypeScript client generated from the reference: talk.js URL EMAIL PASSWORD EMAIL PASSWORD.
// The first person writes, the second one reads and answers. Exits with 1 at an unexpected response.
import createClient from "openapi-fetch";
import type { components, paths } from "./busbar.d.ts";

// The types of the main objects have the names of the document.
type Named = components["schemas"];
type Main = [
    Named["Account"], Named["ApiClient"], Named["AuditRecord"], Named["BulkUpload"], Named["Certificate"],
    Named["CertificateEntry"], Named["Delivery"], Named["Device"], Named["DeviceFields"], Named["DeviceGroup"],
    Named["Document"], Named["NewReadings"], Named["NewWebhook"], Named["Organization"], Named["Reading"],
    Named["Session"], Named["Webhook"], Named["WebhookChange"],
];

declare const process: { argv: string[] };

const [url, alice, alicePassword, bob, bobPassword] = process.argv.slice(2) as [string, string, string, string, string];

function same<T>(got: T, expected: T): void {
    if (got !== expected) throw new Error(`${String(got)} instead of ${String(expected)}`);
}

// Returns the data of a response; throws an error of the document.
function good<T>(answer: { data?: T; error?: { message: string } }): T {
    if (answer.data === undefined) throw new Error(answer.error?.message ?? "no data");
    return answer.data;
}

async function login(username: string, password: string) {
    const client = createClient<paths>({ baseUrl: url });
    const body: Named["Login"] = { username, password };
    const { accessToken }: Named["AccessToken"] = good(await client.POST("/api/auth/login", { body }));

    return createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${accessToken}` } });
}

async function unread(client: Awaited<ReturnType<typeof login>>, email: string): Promise<number> {
    return good(await client.GET("/api/chat/unread-count/{email}", { params: { path: { email } } })).count;
}

const first = await login(alice, alicePassword);
const second = await login(bob, bobPassword);
const { conversation, message } = good(
    await first.POST("/api/chat/conversations/start", {
        body: { participant1: alice, participant2: bob, username: alice, chatEntry: "typed by a client" },
    }),
);
const path = { id: conversation.id };

same(message.chatEntry, "typed by a client");
same(await unread(second, bob), 1);
good(
    await second.POST("/api/chat/conversations/{id}/messages", {
        params: { path },
        body: { username: bob, chatEntry: "answered by another" },
    }),
);
good(await second.PATCH("/api/chat/conversations/{id}/read", { params: { path }, body: { email: bob } }));
same(await unread(second, bob), 0);

const chain: Named["Message"][] = good(
    await first.GET("/api/chat/chain/{headUuid}", { params: { path: { headUuid: conversation.headUuid } } }),
);

same(chain.length, 2);
same(chain[1]?.username, bob);
same(chain[1]?.nextEntryUuid, null);

const refused = await first.GET("/api/admin/users", {});

same(refused.error?.statusCode, 403);
