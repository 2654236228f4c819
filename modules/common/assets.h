/*
 * Files for browsers: pages and the files that pages use. Startup and each reload read a directory
 * of files into memory, so that no path in a request ever reaches the file system. Files below
 * assets/ have a hash in their names, so browsers may cache them forever. FILE.br and FILE.gz are
 * the compressed versions of FILE (scripts/make-web builds all of them).
 */
#ifndef COMMON_ASSETS_H
#define COMMON_ASSETS_H

#include <busbar/busbar.h>

struct assets;

/*
 * Reads all files of a directory and of its subdirectory assets/. The directory is `own` (from a
 * setting), or `installed` if `own` is "". If it does not exist, logs that `where` has no pages,
 * and leaves *assets unchanged. Call this in `open`. Returns 0, or -1 after bb_open_fail().
 */
int assets_open(struct bb_host *host, const char *own, const char *installed, const char *where,
                struct assets **assets);
void assets_free(struct assets *assets);

/*
 * Responds to GET with a file: the one of assets/ that the path segment `file` names, or index.html
 * if there is no segment. If the client accepts br or gzip, sends that version. Responds with 304
 * if the client has the file already, or with 404 if there is no such file or `assets` is NULL. A
 * Content-Security-Policy prevents pages from loading scripts and styles of other hosts.
 */
int assets_reply(struct bb_request *rq, const struct assets *assets);

/* The values of `segments` and `errors` for the routes of files. */
extern const struct bb_field assets_segments[1];
extern const int assets_errors[];

/* Returns whether the client already has the version with this (quoted) tag (If-None-Match). */
bool assets_known(struct bb_request *rq, const char *tag);

#endif
