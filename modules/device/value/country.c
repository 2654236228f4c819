#include "modules/device/value/country.h"

#include <string.h>
#include <strings.h>

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

/* Other names in use: longer ones from ISO 3166-1, and older ones. */
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

int country_find_name(const char *name)
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

void country_code(int country, size_t letters, char code[4])
{
    memcpy(code, countries[country].codes + (letters == 3 ? 2 : 0), letters);
    code[letters] = '\0';
}

const char *country_name(int country)
{
    return countries[country].name;
}
