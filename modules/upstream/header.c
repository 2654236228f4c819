#include "modules/upstream/header.h"

#include <string.h>

bool header_is_name(const char *text)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    if (!*text)
        return false;
    for (; *text; text++) {
        bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');

        if (!letter && !(*text >= '0' && *text <= '9') && !strchr(others, *text))
            return false;
    }
    return true;
}

bool header_is_value(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7F)
            return false;
    return true;
}
