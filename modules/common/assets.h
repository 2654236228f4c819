/*
 * Files for browsers: pages and the files that pages use. A directory of them is read into memory
 * when a generation is opened, so that no path in a request ever reaches the file system. Files
 * below assets/ have a hash in their names and may be cached by browsers forever. FILE.br and
 * FILE.gz are the compressed versions of FILE (scripts/make-web builds them all).
 */
#ifndef COMMON_ASSETS_H
#define COMMON_ASSETS_H

#include <busbar/busbar.h>

struct assets;

/*
 * For `open`: reads all files of a directory and of its assets/. `own` is a setting; "" stands for
 * the installed directory. Returns 0, or -1 after bb_open_fail(). If the directory does not exist,
 * logs that `where` has no pages, and *assets is unchanged.
 */
int assets_open(struct bb_host *host, const char *own, const char *installed, const char *where,
                struct assets **assets);
void assets_free(struct assets *assets);

/*
 * Responds to GET with the page, or with the file of assets/, in the encoding that the client
 * accepts (br, gzip); 304 if the client has it already, 404 if there is no such file or `assets` is
 * NULL. Pages get a policy that blocks scripts and styles of other hosts. Returns the status.
 */
int assets_page(struct bb_request *rq, const struct assets *assets, const char *name);
int assets_file(struct bb_request *rq, const struct assets *assets, const char *name);

/* Returns whether the client already has the version with this (quoted) tag: If-None-Match. */
bool assets_known(struct bb_request *rq, const char *tag);

#endif
