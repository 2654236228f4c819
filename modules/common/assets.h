/*
 * Files that browsers get: pages, and what pages use. A directory of them is read into memory when
 * a generation is opened, so that no path of a request ever reaches the file system; those below
 * assets/ have a hash in their names and may be kept by browsers for ever. Beside FILE lie FILE.br
 * and FILE.gz, its compressed forms (scripts/make-web makes all of them).
 */
#ifndef COMMON_ASSETS_H
#define COMMON_ASSETS_H

#include <busbar/busbar.h>

struct assets;

/*
 * Reads all files of a directory and of its assets/. NULL with a reason in why[0..size): errno's
 * where it cannot be read, so that a directory that is not there can be told apart (*missing).
 */
struct assets *assets_read(const char *directory, bool *missing, char *why, size_t size);
void assets_free(struct assets *assets);

/*
 * Answers GET with the page, or with the file of assets/: as the client takes it (br, gzip), 304
 * where it has it already, 404 where there is none. With NULL for `assets` all are 404. Pages get
 * the policy that keeps scripts and styles of others out. Returns the status.
 */
int assets_page(struct bb_request *rq, const struct assets *assets, const char *name);
int assets_file(struct bb_request *rq, const struct assets *assets, const char *name);

/* Whether the client has the version with this tag (quoted) already: If-None-Match. */
bool assets_known(struct bb_request *rq, const char *tag);

#endif
