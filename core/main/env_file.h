/*
 * Implements --env-file: sets the environment variables of a file, so that a command uses the same
 * configuration as the service. The file has the syntax of EnvironmentFile= in systemd: a line is
 * NAME=value; blank lines and lines that begin with # or ; are ignored. At the beginning of a
 * value, and after a closing quote, ' and " quote the following text, which may span lines;
 * elsewhere they are ordinary characters. A backslash removes the meaning of the next character; at
 * the end of a line it continues the value in the next line. Other lines are errors, although
 * systemd ignores them.
 *
 * Call in the main thread, before other threads are created.
 */
#ifndef CORE_ENV_FILE_H
#define CORE_ENV_FILE_H

/*
 * Sets all variables of the file, replacing existing ones. Returns 0, or -1 after a message on
 * standard error, which contains the line number but never the value.
 */
int env_file_read(const char *path);

#endif
