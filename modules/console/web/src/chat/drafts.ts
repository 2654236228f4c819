/* What is written in each conversation, while the page is open; whoever logs in next does not find it. */
export const drafts = new Map<number, string>()
