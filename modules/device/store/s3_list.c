/* Parses the XML responses of S3: lists of objects, and errors. */
#include <expat.h>
#include <stdlib.h>
#include <string.h>

#include "modules/device/store/s3.h"

enum { TEXT = STORE_AFTER, DEPTH_MAX = 16 };

/* The relevant elements contain only text; `text` collects the text of the open element. */
struct s3_reader {
    XML_Parser parser;
    struct s3_page *page;
    size_t taken;
    int depth;
    size_t length;
    char text[TEXT];
    char key[TEXT];
    bool long_text;
    bool old; /* the object being read is older than list->before */
};

static void stop(struct s3_reader *reader, const char *problem)
{
    reader->page->problem = problem;
    XML_StopParser(reader->parser, XML_FALSE);
}

/* Refuses document types, so no entities need to be expanded. */
static void doctype(void *arg, const XML_Char *name, const XML_Char *system, const XML_Char *public,
                    int internal)
{
    (void)name, (void)system, (void)public, (void)internal;
    stop(arg, "the list of objects has a document type");
}

static void element_begins(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct s3_reader *reader = arg;

    (void)attributes;
    reader->length = 0;
    reader->long_text = false;
    if (++reader->depth > DEPTH_MAX)
        stop(reader, "the list of objects is nested too deeply");
    if (strcmp(name, "Contents") == 0) {
        reader->key[0] = '\0';
        reader->old = false;
    }
}

static void element_text(void *arg, const XML_Char *text, int length)
{
    struct s3_reader *reader = arg;

    if (reader->length + (size_t)length >= TEXT) {
        reader->long_text = true;
        return;
    }
    memcpy(reader->text + reader->length, text, (size_t)length);
    reader->length += (size_t)length;
}

static bool older(const char *text, time_t before)
{
    struct tm at = {.tm_mday = 1};

    return strptime(text, "%Y-%m-%dT%H:%M:%S", &at) && timegm(&at) < before;
}

/*
 * Handles one object: remembers where the next page starts, and adds the object to the list if its
 * name is one of busbar's.
 */
static void object(struct s3_reader *reader)
{
    struct store_list *list = reader->page->list;
    size_t prefix = strlen(reader->page->prefix);

    if (!reader->key[0] || list->count == STORE_BATCH) {
        stop(reader, "the list of objects is not as it was asked for");
        return;
    }
    reader->page->seen = true;
    memcpy(list->after, reader->key, TEXT);
    if (reader->old && !strncmp(reader->key, reader->page->prefix, prefix) &&
        store_is_name(reader->key + prefix))
        strcpy(list->names[list->count++], reader->key + prefix);
}

static void element_ends(void *arg, const XML_Char *name)
{
    struct s3_reader *reader = arg;

    reader->depth--;
    reader->text[reader->length] = '\0';
    if (!strcmp(name, "Key") && reader->long_text)
        stop(reader, "a name in the list of objects is too long");
    else if (!strcmp(name, "Key"))
        memcpy(reader->key, reader->text, TEXT);
    else if (!strcmp(name, "LastModified"))
        reader->old = older(reader->text, reader->page->list->before);
    else if (!strcmp(name, "IsTruncated"))
        reader->page->truncated = !strcmp(reader->text, "true");
    else if (!strcmp(name, "Contents"))
        object(reader);
    reader->length = 0;
}

int s3_page_begin(struct s3_page *page)
{
    struct s3_reader *reader = calloc(1, sizeof(*reader));

    page->reader = reader;
    if (reader)
        reader->parser = XML_ParserCreate("UTF-8");
    if (!reader || !reader->parser)
        return -1;
    reader->page = page;
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, element_begins, element_ends);
    XML_SetCharacterDataHandler(reader->parser, element_text);
    XML_SetStartDoctypeDeclHandler(reader->parser, doctype);
    return 0;
}

static int parse(struct s3_page *page, const char *bytes, size_t length, bool last)
{
    if (XML_Parse(page->reader->parser, bytes, (int)length, last) == XML_STATUS_OK)
        return 0;
    if (!page->problem)
        page->problem = "the list of objects is not XML";
    return -1;
}

int s3_page_take(void *arg, const char *bytes, size_t length)
{
    struct s3_page *page = arg;

    page->reader->taken += length;
    if (page->reader->taken > S3_BODY) {
        page->problem = "the list of objects is too long";
        return -1;
    }
    return parse(page, bytes, length, false);
}

int s3_page_end(struct s3_page *page)
{
    int failed = -1;

    if (page->reader && page->reader->parser) {
        failed = page->problem || parse(page, "", 0, true) ? -1 : 0;
        XML_ParserFree(page->reader->parser);
    }
    free(page->reader);
    return failed;
}

/* ---- errors ---- */

struct error_reader {
    bool in_code, done;
    size_t length;
    char *code;
};

static void error_begins(void *arg, const XML_Char *name, const XML_Char **attributes)
{
    struct error_reader *reader = arg;

    (void)attributes;
    reader->in_code = !reader->done && !strcmp(name, "Code");
}

static void error_ends(void *arg, const XML_Char *name)
{
    struct error_reader *reader = arg;

    (void)name;
    reader->done = reader->done || reader->in_code;
    reader->in_code = false;
}

/* Keeps only letters and digits, because the code is logged. */
static void error_text(void *arg, const XML_Char *text, int length)
{
    struct error_reader *reader = arg;

    for (int i = 0; reader->in_code && i < length && reader->length + 1 < S3_CODE; i++)
        if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
            (text[i] >= '0' && text[i] <= '9'))
            reader->code[reader->length++] = text[i];
}

void s3_error_code(const char *body, size_t length, char code[S3_CODE])
{
    struct error_reader reader = {.code = code};
    XML_Parser parser = XML_ParserCreate("UTF-8");

    memset(code, 0, S3_CODE);
    if (!parser)
        return;
    XML_SetUserData(parser, &reader);
    XML_SetElementHandler(parser, error_begins, error_ends);
    XML_SetCharacterDataHandler(parser, error_text);
    (void)XML_Parse(parser, body, (int)length, 0); /* parse as far as possible */
    XML_ParserFree(parser);
}
