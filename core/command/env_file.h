/*
 * --env-file: variables of a file put into the environment of the process, so that a command sees
 * the configuration that the service sees. The file is written as for EnvironmentFile= of systemd:
 * a line is NAME=value; blank lines and those that begin with # or ; are passed over. Where a value
 * begins, and behind a closing quote, ' and " quote what follows, over lines too; elsewhere they
 * are characters like others. A backslash takes the meaning of the character behind it, and at the
 * end of a line it has the value go on in the next one. Stricter than systemd, which passes over a
 * line that is no NAME=value: here that is an error.
 *
 * Called by the main thread, before there is another.
 */
#ifndef CORE_ENV_FILE_H
#define CORE_ENV_FILE_H

/*
 * Sets all variables of the file; they take the place of those that were there. 0, or -1 after a
 * message on standard error, which names the line and never its value.
 */
int env_file_read(const char *path);

#endif
