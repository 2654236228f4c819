/* Statements of a module that its file shows and the host would never send, see sql_check.h. */
#include <string.h>

#include <busbar/busbar.h>

#include "core/module/elf_image.h"
#include "core/module/module_validate.h"
#include "core/module/sql_check.h"
#include "core/module/sql_token.h"

enum { WORDS = 80, WHY = 256 };

/* The text of what may be a struct bb_sql at this place; NULL: it is none. */
static const char *text_at(const struct elf_image *image, uint64_t at)
{
    struct bb_sql sql;
    const char *end = image->base + image->size;

    if (at > image->size - sizeof sql)
        return NULL;
    memcpy(&sql, image->base + at, sizeof sql);
    if (sql.flags & ~(unsigned)(BB_SQL_WRITE | BB_SQL_LONG) || sql.text < image->base ||
        sql.text >= end || !memchr(sql.text, '\0', (size_t)(end - sql.text)))
        return NULL;
    return sql.text;
}

/* Other things may have the size of a statement and begin with a text. */
static void check_symbol(const struct core_module *module, const struct elf_image *image,
                         const GElf_Sym *symbol, struct setting_problems *problems)
{
    char words[WORDS];
    const char *text = NULL;

    if (GELF_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size == sizeof(struct bb_sql))
        text = text_at(image, symbol->st_value);
    const char *why = text ? sql_check(text, true) : NULL;

    if (why && sql_is_sure(text))
        setting_problem(problems, "%s: module %s: the statement \"%s\" %s", module->path,
                        module->descriptor->name, sql_words(text, words, sizeof words), why);
}

static void check_symbols(const struct core_module *module, const struct elf_file *file,
                          const struct elf_image *image, struct setting_problems *problems)
{
    struct elf_symbols symbols = elf_file_symbols(file, SHT_SYMTAB);
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++)
        if (elf_symbol(&symbols, i, &symbol))
            check_symbol(module, image, &symbol, problems);
}

void module_sql_check(const struct core_module *module, struct setting_problems *problems)
{
    struct elf_image image = {0};
    struct elf_file file;
    char why[WHY];

    if (!module->path || !elf_image_possible() ||
        elf_file_open(&file, module->path, why, sizeof why))
        return;
    if (!elf_image_make(&image, &file, why, sizeof why)) {
        if (image.size >= sizeof(struct bb_sql))
            check_symbols(module, &file, &image, problems);
        elf_image_free(&image);
    }
    elf_file_close(&file);
}
