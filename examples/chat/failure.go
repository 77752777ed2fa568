package main

import (
	"errors"
	"fmt"

	"github.com/fermata-ai/fermata/kvstore/bolt"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/session"
)

// explain returns what went wrong in a session, and what to do about it.
func explain(err error, m model) string {
	var failed *llm.Error
	var waiting *session.PendingError
	switch {
	case errors.As(err, &waiting):
		return fmt.Sprintf(
			"your message was not taken, since a call waits: %s. Its result will come; or "+
				"/cancel %s, and say it again",
			waits(waiting.Pending[0]), waiting.Pending[0].Tool)
	case errors.As(err, &failed):
		return fmt.Sprintf("%v\n          What you said is kept. %s",
			failed, advice(failed.Kind, m))
	}
	return words(err)
}

// advice returns what to do about a model's failure.
func advice(k llm.ErrorKind, m model) string {
	const again = "Then leave, and go on with -session; or choose another model with -provider " +
		"or -model."
	switch k {
	case llm.ErrAuth:
		return "The key is not accepted: check " + m.key +
			", and whether its account has credit and may do this. " + again
	case llm.ErrNetwork:
		return "The service can't be reached: check your connection, and the base URL if you " +
			"have set one. /retry tries again."
	case llm.ErrRateLimited, llm.ErrOverloaded, llm.ErrTruncated:
		return "That may pass: wait a little, and type /retry. A rate limit may also mean that " +
			"the account has no credit left."
	case llm.ErrContextTooLong:
		return "The session is too long for this model. Begin a new one, or go on with a model " +
			"that takes more."
	case llm.ErrInvalid:
		return "The service doesn't take the request: check whether it has this model, and, if " +
			"you have set a base URL, whether that is whole. " + again
	}
	return "/retry tries again."
}

// kind returns a failure in a word, where there is one.
func kind(err error) string {
	var failed *llm.Error
	if errors.As(err, &failed) {
		return string(failed.Kind)
	}
	return err.Error()
}

// words returns an error's own text, or better words.
func words(err error) string {
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return "another chat has the file open: leave that one first, or choose another file " +
			"with -file"
	case errors.Is(err, session.ErrWrongUser):
		return "that session is another user's: choose another with -session"
	}
	return err.Error()
}
