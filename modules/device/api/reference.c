/*
 * GET /api/reference/…: the choices that a form offers for the fields of a device. Other codes are
 * accepted too; value.c checks the fields.
 */
#include "modules/device/record/device.h"
#include "modules/device/value/timezones.h"

/* Takes ownership of the item. If out of memory, frees the list and returns NULL. */
static json_t *append(json_t *list, json_t *item)
{
    if (list && !json_array_append_new(list, item))
        return list;
    json_decref(list);
    return NULL;
}

int device_countries(struct bb_request *rq)
{
    json_t *list = json_array();

    for (int i = 0; i < COUNTRIES && list; i++) {
        char two[4], three[4];

        country_code(i, 2, two);
        country_code(i, 3, three);
        list = append(list, json_pack("{s:s, s:s, s:s}", "alpha2", two, "alpha3", three, "name",
                                      country_name(i)));
    }
    return bb_reply(rq, 200, list);
}

/* The I-REC Standard's codes of fuels and device types, in the standard's order. */
struct code {
    const char *code, *name; /* NULL: end of the list */
};

static const struct code fuel_codes[] = {
    {"ES100", "Solar"},
    {"ES200", "Wind"},
    {"ES300", "Hydro"},
    {"ES410", "Marine: tidal"},
    {"ES420", "Marine: wave"},
    {"ES430", "Marine: current"},
    {"ES440", "Marine: vertical pressure"},
    {"ES510", "Solid biomass: municipal waste"},
    {"ES520", "Solid biomass: industrial and commercial waste"},
    {"ES530", "Solid biomass: forestry products"},
    {"ES540", "Solid biomass: forestry by-products and waste"},
    {"ES550", "Solid biomass: animal fats"},
    {"ES560", "Solid biomass: agricultural products"},
    {"ES570", "Solid biomass: agricultural by-products and waste"},
    {"ES610", "Liquid biomass: municipal biodegradable waste"},
    {"ES620", "Liquid biomass: black liquor"},
    {"ES630", "Liquid biomass: pure plant oil"},
    {"ES650", "Liquid biomass: waste plant oil"},
    {"ES660", "Liquid biomass: refined vegetable oil"},
    {"ES670", "Liquid biomass: biodiesel"},
    {"ES680", "Liquid biomass: biogasoline"},
    {"ES710", "Biogas: landfill"},
    {"ES720", "Biogas: sewage"},
    {"ES730", "Biogas: digestion of organic waste"},
    {"ES740", "Biogas: biogenic process gas"},
    {"ES810", "Renewable heat: geothermal"},
    {"ES820", "Renewable heat: aerothermal"},
    {"ES830", "Renewable heat: hydrothermal"},
    {"ES840", "Renewable heat: biogenic process heat"},
    {"ES910", "Co-fired: biomass in municipal solid waste"},
    {"ES920", "Co-fired: biomass in industrial and commercial waste"},
    {"ES930", "Co-fired: waste wood"},
    {"ES940", "Co-fired: forestry products"},
    {"ES950", "Co-fired: forestry by-products and waste"},
    {"ES960", "Co-fired: animal fats"},
    {"ES970", "Co-fired: biomass in agricultural products"},
    {"ES980", "Co-fired: biomass in agricultural by-products and waste"},
    {"ES990", "Co-fired: concentrated solar heat"},
    {NULL, NULL},
};

static const struct code device_type_codes[] = {
    {"TC110", "Photovoltaic, on the ground"},
    {"TC120", "Photovoltaic, on a roof"},
    {"TC130", "Photovoltaic, floating"},
    {"TC140", "Photovoltaic, aggregated"},
    {"TC150", "Concentrated solar heat"},
    {"TC210", "Wind, onshore"},
    {"TC220", "Wind, offshore"},
    {"TC310", "Hydro, dam"},
    {"TC320", "Hydro, run of river"},
    {"TC330", "Hydro, pumped storage (natural inflow only)"},
    {"TC410", "Combined-cycle gas turbine with heat recovery"},
    {"TC411", "Combined-cycle gas turbine with heat recovery, combined heat and power"},
    {"TC421", "Back-pressure steam turbine, open cycle"},
    {"TC422", "Back-pressure steam turbine, open cycle, combined heat and power"},
    {"TC423", "Condensing steam turbine, closed cycle"},
    {"TC424", "Condensing steam turbine, closed cycle, combined heat and power"},
    {"TC431", "Gas turbine with heat recovery"},
    {"TC432", "Gas turbine with heat recovery, combined heat and power"},
    {"TC441", "Internal combustion engine"},
    {"TC442", "Internal combustion engine, combined heat and power"},
    {"TC451", "Micro-turbine"},
    {"TC452", "Micro-turbine, combined heat and power"},
    {"TC461", "Stirling engine"},
    {"TC462", "Stirling engine, combined heat and power"},
    {"TC471", "Fuel cell"},
    {"TC472", "Fuel cell, combined heat and power"},
    {"TC481", "Steam engine"},
    {"TC482", "Steam engine, combined heat and power"},
    {"TC491", "Organic Rankine cycle"},
    {"TC492", "Organic Rankine cycle, combined heat and power"},
    {NULL, NULL},
};

static int reply_codes(struct bb_request *rq, const struct code *codes)
{
    json_t *list = json_array();

    for (; codes->code && list; codes++)
        list = append(list, json_pack("{s:s, s:s}", "code", codes->code, "name", codes->name));
    return bb_reply(rq, 200, list);
}

int device_fuel_codes(struct bb_request *rq)
{
    return reply_codes(rq, fuel_codes);
}

int device_types(struct bb_request *rq)
{
    return reply_codes(rq, device_type_codes);
}

int device_time_zones(struct bb_request *rq)
{
    const struct device *state = rq->state;
    json_t *list = json_array();

    for (size_t i = 0; i < timezones_count(state->zones) && list; i++)
        list = append(list, json_pack("{s:s}", "name", timezones_name(state->zones, i)));
    return bb_reply(rq, 200, list);
}
