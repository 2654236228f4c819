/*
 * The host's code that the fake is built with has other names in it, lest a module that is tested
 * has functions of the same ones. Included before anything else. A name that is missing here keeps
 * the unit tests from linking, which have the host's code, too.
 */
#ifndef FAKE_CORE_NAMES_H
#define FAKE_CORE_NAMES_H

#define api_fail_listed_text fake_core_api_fail_listed_text
#define api_fail_text fake_core_api_fail_text
#define api_host_log_text fake_core_api_host_log_text
#define api_invalid_text fake_core_api_invalid_text
#define api_log_text fake_core_api_log_text
#define api_open_fail_text fake_core_api_open_fail_text
#define api_print_text fake_core_api_print_text
#define api_warn_text fake_core_api_warn_text
#define arena_alloc fake_core_arena_alloc
#define arena_defer fake_core_arena_defer
#define arena_format fake_core_arena_format
#define arena_free fake_core_arena_free
#define arena_new fake_core_arena_new
#define arena_starved fake_core_arena_starved
#define arena_text fake_core_arena_text
#define arena_thread_end fake_core_arena_thread_end
#define arena_vformat fake_core_arena_vformat
#define clock_mono_ms fake_core_clock_mono_ms
#define clock_mono_us fake_core_clock_mono_us
#define clock_thread_us fake_core_clock_thread_us
#define clock_wall_ms fake_core_clock_wall_ms
#define email_normal fake_core_email_normal
#define field_at fake_core_field_at
#define settings_struct_fault fake_core_settings_struct_fault
#define settings_struct_store fake_core_settings_struct_store
#define field_check_text fake_core_field_check_text
#define field_empty_is_absent fake_core_field_empty_is_absent
#define field_find fake_core_field_find
#define field_int_fits fake_core_field_int_fits
#define field_number_fits fake_core_field_number_fits
#define field_string fake_core_field_string
#define field_trims fake_core_field_trims
#define field_value fake_core_field_value
#define fields_check fake_core_fields_check
#define fields_keep_others fake_core_fields_keep_others
#define fields_object fake_core_fields_object
#define form_read fake_core_form_read
#define json_out_text fake_core_json_out_text
#define json_read fake_core_json_read
#define json_read_most fake_core_json_read_most
#define json_read_stored fake_core_json_read_stored
#define json_starves fake_core_json_starves
#define json_watch_memory fake_core_json_watch_memory
#define json_write fake_core_json_write
#define place_problem fake_core_place_problem
#define place_warn fake_core_place_warn
#define problems_add fake_core_problems_add
#define problems_list fake_core_problems_list
#define query_check fake_core_query_check
#define query_get fake_core_query_get
#define text_blank fake_core_text_blank
#define text_characters fake_core_text_characters
#define text_code_point fake_core_text_code_point
#define text_hex fake_core_text_hex
#define text_hex_decode fake_core_text_hex_decode
#define text_integer fake_core_text_integer
#define text_is_uuid fake_core_text_is_uuid
#define text_ms fake_core_text_ms
#define text_percent fake_core_text_percent
#define text_space fake_core_text_space
#define text_time fake_core_text_time
#define text_time_parse fake_core_text_time_parse
#define text_trim fake_core_text_trim
#define text_utf8 fake_core_text_utf8
#define text_valid fake_core_text_valid
#define unicode_fold fake_core_unicode_fold
#define unicode_problem fake_core_unicode_problem
#define unicode_single_spaces fake_core_unicode_single_spaces
#define warnings_add fake_core_warnings_add
#define warnings_vadd fake_core_warnings_vadd

#endif
