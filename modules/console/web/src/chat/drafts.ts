/* The unsent text of each conversation, while the page is open; it is not kept for the next user. */
export const drafts = new Map<number, string>()
