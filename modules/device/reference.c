/*
 * Countries, and GET /api/reference/…: the choices that a form offers for the fields of a device.
 * Other codes are accepted, too; fields.c checks the fields.
 */
#include <string.h>
#include <strings.h>

#include "modules/device/device.h"

struct country {
    char codes[6]; /* alpha-2, then alpha-3 */
    const char *name;
};

// clang-format off
static const struct country countries[COUNTRIES] = {
    {"AFAFG", "Afghanistan"}, {"AXALA", "Åland Islands"}, {"ALALB", "Albania"},
    {"DZDZA", "Algeria"}, {"ASASM", "American Samoa"}, {"ADAND", "Andorra"}, {"AOAGO", "Angola"},
    {"AIAIA", "Anguilla"}, {"AQATA", "Antarctica"}, {"AGATG", "Antigua and Barbuda"},
    {"ARARG", "Argentina"}, {"AMARM", "Armenia"}, {"AWABW", "Aruba"}, {"AUAUS", "Australia"},
    {"ATAUT", "Austria"}, {"AZAZE", "Azerbaijan"}, {"BSBHS", "Bahamas"}, {"BHBHR", "Bahrain"},
    {"BDBGD", "Bangladesh"}, {"BBBRB", "Barbados"}, {"BYBLR", "Belarus"}, {"BEBEL", "Belgium"},
    {"BZBLZ", "Belize"}, {"BJBEN", "Benin"}, {"BMBMU", "Bermuda"}, {"BTBTN", "Bhutan"},
    {"BOBOL", "Bolivia"}, {"BQBES", "Bonaire, Sint Eustatius and Saba"},
    {"BABIH", "Bosnia and Herzegovina"}, {"BWBWA", "Botswana"}, {"BVBVT", "Bouvet Island"},
    {"BRBRA", "Brazil"}, {"IOIOT", "British Indian Ocean Territory"}, {"BNBRN", "Brunei"},
    {"BGBGR", "Bulgaria"}, {"BFBFA", "Burkina Faso"}, {"BIBDI", "Burundi"}, {"KHKHM", "Cambodia"},
    {"CMCMR", "Cameroon"}, {"CACAN", "Canada"}, {"CVCPV", "Cape Verde"},
    {"KYCYM", "Cayman Islands"}, {"CFCAF", "Central African Rep."}, {"TDTCD", "Chad"},
    {"CLCHL", "Chile"}, {"CNCHN", "China"}, {"CXCXR", "Christmas Island"},
    {"CCCCK", "Cocos (Keeling) Islands"}, {"COCOL", "Colombia"}, {"KMCOM", "Comoros"},
    {"CGCOG", "Congo"}, {"CDCOD", "Congo (Democratic Republic)"}, {"CKCOK", "Cook Islands"},
    {"CRCRI", "Costa Rica"}, {"CICIV", "Côte d'Ivoire"}, {"HRHRV", "Croatia"}, {"CUCUB", "Cuba"},
    {"CWCUW", "Curaçao"}, {"CYCYP", "Cyprus"}, {"CZCZE", "Czechia"}, {"DKDNK", "Denmark"},
    {"DJDJI", "Djibouti"}, {"DMDMA", "Dominica"}, {"DODOM", "Dominican Republic"},
    {"TLTLS", "East Timor"}, {"ECECU", "Ecuador"}, {"EGEGY", "Egypt"}, {"SVSLV", "El Salvador"},
    {"GQGNQ", "Equatorial Guinea"}, {"ERERI", "Eritrea"}, {"EEEST", "Estonia"},
    {"SZSWZ", "Eswatini"}, {"ETETH", "Ethiopia"}, {"FKFLK", "Falkland Islands"},
    {"FOFRO", "Faroe Islands"}, {"FJFJI", "Fiji"}, {"FIFIN", "Finland"}, {"FRFRA", "France"},
    {"GFGUF", "French Guiana"}, {"PFPYF", "French Polynesia"},
    {"TFATF", "French Southern Territories"}, {"GAGAB", "Gabon"}, {"GMGMB", "Gambia"},
    {"GEGEO", "Georgia"}, {"DEDEU", "Germany"}, {"GHGHA", "Ghana"}, {"GIGIB", "Gibraltar"},
    {"GRGRC", "Greece"}, {"GLGRL", "Greenland"}, {"GDGRD", "Grenada"}, {"GPGLP", "Guadeloupe"},
    {"GUGUM", "Guam"}, {"GTGTM", "Guatemala"}, {"GGGGY", "Guernsey"}, {"GNGIN", "Guinea"},
    {"GWGNB", "Guinea-Bissau"}, {"GYGUY", "Guyana"}, {"HTHTI", "Haiti"},
    {"HMHMD", "Heard Island and McDonald Islands"}, {"HNHND", "Honduras"}, {"HKHKG", "Hong Kong"},
    {"HUHUN", "Hungary"}, {"ISISL", "Iceland"}, {"ININD", "India"}, {"IDIDN", "Indonesia"},
    {"IRIRN", "Iran"}, {"IQIRQ", "Iraq"}, {"IEIRL", "Ireland"}, {"IMIMN", "Isle of Man"},
    {"ILISR", "Israel"}, {"ITITA", "Italy"}, {"JMJAM", "Jamaica"}, {"JPJPN", "Japan"},
    {"JEJEY", "Jersey"}, {"JOJOR", "Jordan"}, {"KZKAZ", "Kazakhstan"}, {"KEKEN", "Kenya"},
    {"KIKIR", "Kiribati"}, {"KPPRK", "Korea (North)"}, {"KRKOR", "Korea (South)"},
    {"KWKWT", "Kuwait"}, {"KGKGZ", "Kyrgyzstan"}, {"LALAO", "Laos"}, {"LVLVA", "Latvia"},
    {"LBLBN", "Lebanon"}, {"LSLSO", "Lesotho"}, {"LRLBR", "Liberia"}, {"LYLBY", "Libya"},
    {"LILIE", "Liechtenstein"}, {"LTLTU", "Lithuania"}, {"LULUX", "Luxembourg"}, {"MOMAC", "Macau"},
    {"MGMDG", "Madagascar"}, {"MWMWI", "Malawi"}, {"MYMYS", "Malaysia"}, {"MVMDV", "Maldives"},
    {"MLMLI", "Mali"}, {"MTMLT", "Malta"}, {"MHMHL", "Marshall Islands"}, {"MQMTQ", "Martinique"},
    {"MRMRT", "Mauritania"}, {"MUMUS", "Mauritius"}, {"YTMYT", "Mayotte"}, {"MXMEX", "Mexico"},
    {"FMFSM", "Micronesia"}, {"MDMDA", "Moldova"}, {"MCMCO", "Monaco"}, {"MNMNG", "Mongolia"},
    {"MEMNE", "Montenegro"}, {"MSMSR", "Montserrat"}, {"MAMAR", "Morocco"}, {"MZMOZ", "Mozambique"},
    {"MMMMR", "Myanmar"}, {"NANAM", "Namibia"}, {"NRNRU", "Nauru"}, {"NPNPL", "Nepal"},
    {"NLNLD", "Netherlands"}, {"NCNCL", "New Caledonia"}, {"NZNZL", "New Zealand"},
    {"NINIC", "Nicaragua"}, {"NENER", "Niger"}, {"NGNGA", "Nigeria"}, {"NUNIU", "Niue"},
    {"NFNFK", "Norfolk Island"}, {"MKMKD", "North Macedonia"},
    {"MPMNP", "Northern Mariana Islands"}, {"NONOR", "Norway"}, {"OMOMN", "Oman"},
    {"PKPAK", "Pakistan"}, {"PWPLW", "Palau"}, {"PSPSE", "Palestine"}, {"PAPAN", "Panama"},
    {"PGPNG", "Papua New Guinea"}, {"PYPRY", "Paraguay"}, {"PEPER", "Peru"},
    {"PHPHL", "Philippines"}, {"PNPCN", "Pitcairn"}, {"PLPOL", "Poland"}, {"PTPRT", "Portugal"},
    {"PRPRI", "Puerto Rico"}, {"QAQAT", "Qatar"}, {"REREU", "Réunion"}, {"ROROU", "Romania"},
    {"RURUS", "Russia"}, {"RWRWA", "Rwanda"}, {"BLBLM", "Saint Barthelemy"},
    {"SHSHN", "Saint Helena"}, {"KNKNA", "Saint Kitts and Nevis"}, {"LCLCA", "Saint Lucia"},
    {"MFMAF", "Saint Martin (French part)"}, {"PMSPM", "Saint Pierre and Miquelon"},
    {"VCVCT", "Saint Vincent"}, {"WSWSM", "Samoa"}, {"SMSMR", "San Marino"},
    {"STSTP", "Sao Tome and Principe"}, {"SASAU", "Saudi Arabia"}, {"SNSEN", "Senegal"},
    {"RSSRB", "Serbia"}, {"SCSYC", "Seychelles"}, {"SLSLE", "Sierra Leone"}, {"SGSGP", "Singapore"},
    {"SXSXM", "Sint Maarten (Dutch part)"}, {"SKSVK", "Slovakia"}, {"SISVN", "Slovenia"},
    {"SBSLB", "Solomon Islands"}, {"SOSOM", "Somalia"}, {"ZAZAF", "South Africa"},
    {"GSSGS", "South Georgia and the South Sandwich Islands"}, {"SSSSD", "South Sudan"},
    {"ESESP", "Spain"}, {"LKLKA", "Sri Lanka"}, {"SDSDN", "Sudan"}, {"SRSUR", "Suriname"},
    {"SJSJM", "Svalbard and Jan Mayen"}, {"SESWE", "Sweden"}, {"CHCHE", "Switzerland"},
    {"SYSYR", "Syria"}, {"TWTWN", "Taiwan"}, {"TJTJK", "Tajikistan"}, {"TZTZA", "Tanzania"},
    {"THTHA", "Thailand"}, {"TGTGO", "Togo"}, {"TKTKL", "Tokelau"}, {"TOTON", "Tonga"},
    {"TTTTO", "Trinidad and Tobago"}, {"TNTUN", "Tunisia"}, {"TRTUR", "Türkiye"},
    {"TMTKM", "Turkmenistan"}, {"TCTCA", "Turks and Caicos Is"}, {"TVTUV", "Tuvalu"},
    {"UGUGA", "Uganda"}, {"UAUKR", "Ukraine"}, {"AEARE", "United Arab Emirates"},
    {"GBGBR", "United Kingdom"}, {"USUSA", "United States"}, {"UYURY", "Uruguay"},
    {"UMUMI", "US minor outlying islands"}, {"UZUZB", "Uzbekistan"}, {"VUVUT", "Vanuatu"},
    {"VAVAT", "Vatican City"}, {"VEVEN", "Venezuela"}, {"VNVNM", "Vietnam"},
    {"VGVGB", "Virgin Islands (UK)"}, {"VIVIR", "Virgin Islands (US)"},
    {"WFWLF", "Wallis and Futuna"}, {"EHESH", "Western Sahara"}, {"YEYEM", "Yemen"},
    {"ZMZMB", "Zambia"}, {"ZWZWE", "Zimbabwe"},
};

/* Other names in use: longer names of ISO 3166-1, and older names. */
static const struct {
    const char *code, *name;
} names[] = {
    {"AX", "Aland Islands"}, {"BO", "Bolivia (Plurinational State of)"}, {"BN", "Brunei Darussalam"},
    {"CV", "Cabo Verde"}, {"CF", "Central African Republic"}, {"CD", "Congo, Democratic Republic of the"},
    {"CD", "Congo (the Democratic Republic of the)"}, {"CD", "Democratic Republic of the Congo"},
    {"CG", "Republic of the Congo"}, {"CI", "Cote d'Ivoire"}, {"CI", "Ivory Coast"}, {"CW", "Curacao"},
    {"CZ", "Czech Republic"}, {"FK", "Falkland Islands (Malvinas)"}, {"VA", "Holy See"},
    {"IR", "Iran (Islamic Republic of)"}, {"IR", "Iran, Islamic Republic of"},
    {"KP", "Korea (the Democratic People's Republic of)"}, {"KP", "North Korea"},
    {"KR", "Korea (the Republic of)"}, {"KR", "Korea, Republic of"}, {"KR", "Republic of Korea"},
    {"KR", "South Korea"}, {"LA", "Lao People's Democratic Republic"}, {"MK", "Macedonia"},
    {"MO", "Macao"}, {"FM", "Micronesia (Federated States of)"}, {"MD", "Moldova (the Republic of)"},
    {"MD", "Moldova, Republic of"}, {"NL", "The Netherlands"}, {"NL", "Netherlands (Kingdom of the)"},
    {"PS", "Palestine, State of"}, {"RE", "Reunion"}, {"RU", "Russian Federation"},
    {"BL", "Saint Barthélemy"}, {"VC", "Saint Vincent and the Grenadines"}, {"SZ", "Swaziland"},
    {"SY", "Syrian Arab Republic"}, {"TW", "Taiwan (Province of China)"},
    {"TW", "Taiwan, Province of China"}, {"TZ", "Tanzania, United Republic of"},
    {"TZ", "Tanzania (the United Republic of)"}, {"TL", "Timor-Leste"}, {"TR", "Turkey"},
    {"TR", "Turkiye"}, {"GB", "Great Britain"}, {"GB", "UK"},
    {"GB", "United Kingdom of Great Britain and Northern Ireland"}, {"US", "USA"},
    {"US", "United States of America"}, {"VE", "Venezuela (Bolivarian Republic of)"},
    {"VN", "Viet Nam"},
};
// clang-format on

static int country_find_name(const char *name)
{
    for (int i = 0; i < COUNTRIES; i++)
        if (!strcasecmp(countries[i].name, name))
            return i;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcasecmp(names[i].name, name))
            return country_find(names[i].code);
    return -1;
}

int country_find(const char *code)
{
    size_t length = strlen(code);
    const size_t start = length == 3 ? 2 : 0;

    if (length != 2 && length != 3)
        return -1;
    for (int i = 0; i < COUNTRIES; i++)
        if (!strncasecmp(countries[i].codes + start, code, length))
            return i;
    return -1;
}

bool device_country_codes(struct bb_request *rq, const char *sent, const char *codes[2])
{
    const char *trimmed = device_trimmed(rq, sent);
    int country = country_find(trimmed);

    if (country < 0)
        country = country_find_name(trimmed);
    codes[0] = country < 0 ? trimmed : bb_format(rq, "%.2s", countries[country].codes);
    codes[1] = country < 0 ? trimmed : bb_format(rq, "%.3s", countries[country].codes + 2);
    return country >= 0;
}

/* ---- routes ---- */

int device_countries(struct bb_request *rq)
{
    json_t *list = json_array();

    for (int i = 0; i < COUNTRIES && list; i++)
        list = bb_append(list,
                         json_pack("{s:s#, s:s#, s:s}", "alpha2", countries[i].codes, 2, "alpha3",
                                   countries[i].codes + 2, 3, "name", countries[i].name));
    return bb_reply(rq, 200, list);
}

/* The codes of fuels and device types of the I-REC Standard, in the order of the standard. */
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

static int reference_reply(struct bb_request *rq, const struct code *codes)
{
    json_t *list = json_array();

    for (; codes->code && list; codes++)
        list = bb_append(list, json_pack("{s:s, s:s}", "code", codes->code, "name", codes->name));
    return bb_reply(rq, 200, list);
}

int device_fuel_codes(struct bb_request *rq)
{
    return reference_reply(rq, fuel_codes);
}

int device_types(struct bb_request *rq)
{
    return reference_reply(rq, device_type_codes);
}

int device_time_zones(struct bb_request *rq)
{
    const struct device *state = rq->state;
    json_t *list = json_array(), *zone;
    const char *name;

    json_object_foreach(state->zones, name, zone)
    {
        list = bb_append(list, json_pack("{s:s}", "name", name));
    }
    return bb_reply(rq, 200, list);
}
