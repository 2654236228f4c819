/* The codes of the I-REC Standard for fuels and types of devices, in their order. Pure data. */
#ifndef DEVICE_CODES_H
#define DEVICE_CODES_H

struct code {
    const char *code, *name; /* NULL: the end */
};

extern const struct code fuel_codes[], device_type_codes[];

#endif
