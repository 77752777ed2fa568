package webhook

import (
	"errors"
	"net/http"

	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// Status returns the HTTP status for an error of Runner.Resume, Send, Progress,
// Cancel, Find or Run. It is for handlers written by hand:
//
//	200  nil: durable, also when it was a duplicate
//	401  not a token
//	403  the authorizer, or the session's user, refuses it
//	404  no such session, call or pause, or its receipts are gone; or the call
//	     takes no event of that name
//	409  another answer came first; the call does not wait for this one, or
//	     another layer's pause does; or several calls wait under one key; or
//	     the call takes no more events
//	410  too late: the token, the pause or the session is over, or the call
//	     has its result
//	413  the body is over an http.MaxBytesReader's limit
//	422  the answer, or an id, does not fit
//	500  a stored record is damaged, or the session's agent is not here
//	502  the model refuses what it is asked for, for good
//	503  try again: not known yet, driven elsewhere, or the store could not be
//	     read or written
//
// 503 is also for what Status does not know: an answer that may be good is
// better retried than dropped.
func Status(err error) int {
	status, _ := classify(err)
	return status
}

// classes is the table of the errors that have a status of their own. The first
// that matches counts: a cancelled call is a settled one, too.
var classes = []struct {
	err    error
	status int
	code   string
}{
	{runner.ErrBadToken, http.StatusUnauthorized, "bad_token"},
	{runner.ErrTokenExpired, http.StatusGone, "token_expired"},
	{runner.ErrNotAllowed, http.StatusForbidden, "not_allowed"},
	{session.ErrWrongUser, http.StatusForbidden, "wrong_user"},
	{session.ErrDeleted, http.StatusGone, "deleted"},
	{session.ErrUnknownSession, http.StatusNotFound, "unknown_session"},
	{session.ErrUnknownCall, http.StatusNotFound, "unknown_call"},
	{session.ErrUnknownPause, http.StatusNotFound, "unknown_pause"},
	{session.ErrUnknownEvent, http.StatusNotFound, "unknown_event"},
	{session.ErrMailboxFull, http.StatusConflict, "mailbox_full"},
	{session.ErrResumeConflict, http.StatusConflict, "conflict"},
	{session.ErrCancelled, http.StatusGone, "cancelled"},
	{session.ErrExpired, http.StatusGone, "expired"},
	{session.ErrSettled, http.StatusGone, "settled"},
	{session.ErrInvalidResumePayload, http.StatusUnprocessableEntity, "invalid"},
	{session.ErrInvalidID, http.StatusUnprocessableEntity, "invalid"},
	{session.ErrInvalidMessage, http.StatusUnprocessableEntity, "invalid"},
	{runner.ErrInvalidProgress, http.StatusUnprocessableEntity, "invalid"},
	{runner.ErrLongReason, http.StatusUnprocessableEntity, "invalid"},
	{runner.ErrInvalidGrant, http.StatusUnprocessableEntity, "invalid"},
	{runner.ErrInvalidRef, http.StatusUnprocessableEntity, "invalid"},
	{session.ErrInvalidDeadline, http.StatusUnprocessableEntity, "invalid"},
	{session.ErrPauseRequired, http.StatusConflict, "pause_required"},
	{session.ErrAmbiguousKey, http.StatusConflict, "ambiguous_key"},
	{session.ErrNotPaused, http.StatusConflict, "not_paused"},
	{session.ErrOtherSender, http.StatusForbidden, "other_sender"},
	{session.ErrOtherGate, http.StatusConflict, "other_gate"},
	{session.ErrPending, http.StatusConflict, "pending"},
	{session.ErrMessageConflict, http.StatusConflict, "message_conflict"},
	{session.ErrNotYetKnown, http.StatusServiceUnavailable, "not_yet_known"},
	{session.ErrBusy, http.StatusServiceUnavailable, "busy"},
	{session.ErrCorrupt, http.StatusInternalServerError, "damaged"},
	{kvstore.ErrCorrupt, http.StatusInternalServerError, "damaged"},
	{runner.ErrUnknownAgent, http.StatusInternalServerError, "unknown_agent"},
}

// classify returns an error's status, and a word for a sender to branch on.
func classify(err error) (status int, code string) {
	if err == nil {
		return http.StatusOK, ""
	}
	if e := asRequestError(err); e != nil {
		return e.status, e.code
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.status, c.code
		}
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return http.StatusRequestEntityTooLarge, "too_large"
	}
	var model *llm.Error
	if errors.As(err, &model) && !model.Retryable() {
		return http.StatusBadGateway, "model"
	}
	return http.StatusServiceUnavailable, "unavailable"
}
