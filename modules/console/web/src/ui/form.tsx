/*
 * Forms with several fields use the library react-hook-form. It keeps their values, reports whether these differ from
 * the initial ones, and has the problem of each field until the user changes the field. Searches, the login and forms
 * with one field do not use it, because they have no problems at fields. Nor do the documents of a device, because
 * the library cannot set a file.
 */
import { useEffect, useRef, type ComponentProps, type FormEvent, type ReactNode } from 'react'
import {
  useController, useForm, type Control, type DefaultValues, type FieldValues, type Path, type UseControllerProps
} from 'react-hook-form'

import { ApiError } from '../api/client'
import { language, t } from '../texts/texts'
import { useAction } from './action'
import { Button, Dialog, Failed, Field } from './ui'

const SERVICE = 'service' // the type of problems that a response has

interface Problem { field: string, problem: string }

export const problemsIn = (error: unknown): Problem[] => error instanceof ApiError ? error.errors : []

/*
 * `values`: the initial ones, in the order of the fields. `send` sends the values, and `done` gets the answer. Then
 * `leave` gets the answer, too, unless the user has left the form meanwhile. `problemsOf` returns the problems of an
 * error under the form's own names of the fields.
 */
export function useSentForm<Values extends FieldValues, Answer> (values: Values, {
  send,
  done,
  leave,
  failed,
  problemsOf = problemsIn
}: {
  send: (values: Values) => Promise<Answer>
  done?: (answer: Answer) => unknown
  leave?: (answer: Answer) => void
  failed?: (error: Error) => unknown
  problemsOf?: (error: unknown) => Problem[]
}) {
  const form = useForm<Values>({ defaultValues: values as DefaultValues<Values> })
  const ref = useRef<HTMLFormElement>(null)
  const has = ({ field }: Problem) => field.split('.')[0]! in values
  const show = ({ field, problem }: Problem) =>
    form.setError(field as Path<Values>, { type: SERVICE, message: problem })
  const save = useAction<Answer, Values>({
    mutationFn: send,
    onSuccess: async (answer) => { await done?.(answer); if (ref.current) leave?.(answer) },
    onError: (error) => {
      problemsOf(error).filter(has).forEach(show)
      return failed?.(error)
    }
  })
  const onSubmit = (event: FormEvent) => {
    form.clearErrors() // otherwise the problems that the service had reported would keep the form from being sent
    void form.handleSubmit((all) => save.mutate(all), () => save.reset())(event)
  }
  const problems = problemsOf(save.error)
  const placed = problems.length > 0 && problems.every(has)

  useEffect(() => {
    if (save.error) ref.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus()
  }, [save.error])
  useEffect(() => { // the fields with a problem get its text in the new language
    const typeAt = (field: string) => form.getFieldState(field as Path<Values>).error?.type
    const names = Object.keys(form.formState.errors) as Path<Values>[]
    problems.filter(({ field }) => typeAt(field) === SERVICE).forEach(show)
    for (const name of names) if (typeAt(name) && typeAt(name) !== SERVICE) void form.trigger(name)
  }, [language])
  /* `error`: what is shown above the fields, because a problem has no field. */
  return { ...form, save, attributes: { ref, onSubmit }, error: placed ? null : save.error }
}

type Sent = Pick<ReturnType<typeof useSentForm>, 'attributes' | 'error'> & { save: { isPending: boolean } }

/* A form in a dialog; `error` replaces the form's. */
export function FormDialog ({ title, of, close, action = t('do.save'), kind = 'main', error = of.error, children, ...rest }: {
  title: string, of: Sent, close: () => void, action?: string, kind?: 'main' | 'danger', error?: unknown,
  noValidate?: boolean, children: ReactNode
}) {
  return (
    <Dialog title={title} close={close}>
      <form {...of.attributes} {...rest}>
        {error !== null && <Failed error={error} />}
        {children}
        <div className='actions'>
          <Button onClick={close}>{t('do.cancel')}</Button>
          <Button kind={kind} type='submit' disabled={of.save.isPending}>{action}</Button>
        </div>
      </form>
    </Dialog>
  )
}

/* A field of the form `of`. `problem` replaces the form's problem of the field. */
interface Bound<Values extends FieldValues> {
  of: { control: Control<Values> }, name: Path<Values>, label: string, problem?: string
  rules?: UseControllerProps<Values>['rules']
}

function useBound<Values extends FieldValues> ({ of, name, label, problem, rules }: Bound<Values>) {
  const { field, fieldState } = useController({ control: of.control, name, rules })
  return {
    field: { ...field, value: String(field.value ?? '') },
    shown: { label, problem: problem ?? fieldState.error?.message }
  }
}

export function Input<Values extends FieldValues> (
  { of, name, label, problem, rules, ...rest }: Bound<Values> & ComponentProps<'input'>
) {
  const { field, shown } = useBound({ of, name, label, problem, rules })
  const date = rest.type?.startsWith('date') ? field.value : undefined
  return <Field {...shown} date={date}>{(props) => <input {...props} {...rest} {...field} />}</Field>
}

export function TextArea<Values extends FieldValues> (
  { of, name, label, problem, rules, ...rest }: Bound<Values> & ComponentProps<'textarea'>
) {
  const { field, shown } = useBound({ of, name, label, problem, rules })
  return <Field {...shown}>{(props) => <textarea {...props} {...rest} {...field} />}</Field>
}

/* `children`: the options. */
export function Select<Values extends FieldValues> (
  { of, name, label, problem, rules, ...rest }: Bound<Values> & ComponentProps<'select'>
) {
  const { field, shown } = useBound({ of, name, label, problem, rules })
  return <Field {...shown}>{(props) => <select {...props} {...rest} {...field} />}</Field>
}
