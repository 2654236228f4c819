/* The I-REC Standard's codes of fuels and device types, in the standard's order. Pure data. */
#ifndef DEVICE_CODES_H
#define DEVICE_CODES_H

struct code {
    const char *code, *name; /* NULL: end of the list */
};

extern const struct code fuel_codes[], device_type_codes[];

#endif
