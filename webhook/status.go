package webhook

import (
	"errors"
	"net/http"

	"github.com/fermata-ai/fermata/internal/httpin"
	"github.com/fermata-ai/fermata/kvstore"
	"github.com/fermata-ai/fermata/llm"
	"github.com/fermata-ai/fermata/runner"
	"github.com/fermata-ai/fermata/session"
)

// Status returns the HTTP status for an error of Runner.Resume, Deliver,
// Progress, Cancel, Find, Run or Send. It is for handlers written by hand:
//
//	200  nil: durable, also when it was a duplicate
//	401  not a token, or not signed
//	403  the authorizer, or the session's user, refuses it
//	404  no such session, call, pause or message, or its receipts are gone; or
//	     the call takes no event of that name
//	409  another answer came first; the call does not wait for this one, or
//	     another layer's pause does; or several calls wait under one key; or
//	     the call takes no more events; or the session, or its handle, is not
//	     one for this
//	410  too late: the token, the pause or the session is over, or the call
//	     has its result
//	413  the body is over an http.MaxBytesReader's limit
//	422  the answer, or an id, does not fit
//	429  no more messages may wait in the session
//	500  a stored record is damaged, or the session's agent is not here
//	502  the model refuses what it is asked for, for good
//	503  try again: not known yet, driven elsewhere, or the store could not be
//	     read or written
//
// 503 is also for what Status does not know: an answer that may be good is
// better retried than dropped.
func Status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	return classify(err).status
}

// kind is one of the problems that there are. Its code is the end of its type.
type kind struct {
	code   string
	status int
	title  string
}

// kinds are all problems. docs/problems.md has a chapter on each.
var kinds = []kind{
	{"broken", http.StatusBadRequest, "The body ends too early"},
	{"bad_query", http.StatusBadRequest, "The query does not fit"},
	{"no_token", http.StatusUnauthorized, "The request has no token"},
	{"bad_token", http.StatusUnauthorized, "The token is not valid"},
	{"unverified", http.StatusUnauthorized, "The request is not signed"},
	{"no_user", http.StatusUnauthorized, "No user is signed in"},
	{"not_allowed", http.StatusForbidden, "It is not allowed"},
	{"other_sender", http.StatusForbidden, "The pause is for another sender"},
	{"not_approver", http.StatusForbidden, "The pause names others as its approvers"},
	{"wrong_user", http.StatusForbidden, "The session belongs to another user"},
	{"cross_site", http.StatusForbidden, "Another site has sent the request"},
	{"no_such_path", http.StatusNotFound, "There is nothing at this path"},
	{"unknown_session", http.StatusNotFound, "There is no such session"},
	{"unknown_call", http.StatusNotFound, "There is no such call"},
	{"unknown_pause", http.StatusNotFound, "There is no such pause"},
	{"unknown_event", http.StatusNotFound, "The call takes no such event"},
	{"unknown_message", http.StatusNotFound, "There is no such message"},
	{"unknown_handle", http.StatusNotFound, "There is no such handle"},
	{"unknown_wait", http.StatusNotFound, "There is no such wait handle"},
	{"no_dead_letter", http.StatusNotFound, "There is no such dead letter"},
	{"method", http.StatusMethodNotAllowed, "The method is not taken"},
	{"not_acceptable", http.StatusNotAcceptable, "The answer has another form"},
	{"too_slow", http.StatusRequestTimeout, "The body came too slowly"},
	{"conflict", http.StatusConflict, "Something else was accepted before"},
	{"message_conflict", http.StatusConflict, "Another message has that id"},
	{"not_paused", http.StatusConflict, "The call does not wait for this"},
	{"other_gate", http.StatusConflict, "The decision is another layer's"},
	{"pause_required", http.StatusConflict, "The call has had several pauses"},
	{"ambiguous_key", http.StatusConflict, "Several calls wait under that key"},
	{"pending", http.StatusConflict, "Calls of the session wait"},
	{"mailbox_full", http.StatusConflict, "The call takes no more events"},
	{"child", http.StatusConflict, "The session is the child of a call"},
	{"name_taken", http.StatusConflict, "An open handle has the name"},
	{"spawn_conflict", http.StatusConflict, "Another handle was begun under that id"},
	{"not_yours", http.StatusConflict, "The handle waits for another one's answer"},
	{"no_input", http.StatusConflict, "The handle takes no input while it runs"},
	{"wait_taken", http.StatusConflict, "A wait handle has the name"},
	{"wait_ended", http.StatusConflict, "The wait handle has ended otherwise"},
	{"no_undo", http.StatusConflict, "Nothing is to be called off"},
	{"given_keys", http.StatusConflict, "The token keys come from the program"},
	{"token_expired", http.StatusGone, "The token has expired"},
	{"deleted", http.StatusGone, "The session is deleted"},
	{"cancelled", http.StatusGone, "The call is cancelled"},
	{"expired", http.StatusGone, "The pause has expired"},
	{"settled", http.StatusGone, "The call has its result"},
	{"handle_stopped", http.StatusGone, "The handle has stopped"},
	{"wait_changes_gone", http.StatusGone, "What came after the cursor is no longer kept"},
	{"too_large", http.StatusRequestEntityTooLarge, "The body is too large"},
	{"unsupported", http.StatusUnsupportedMediaType, "The body has a form that is not taken"},
	{"range", http.StatusRequestedRangeNotSatisfiable, "There is no such range"},
	{"invalid", http.StatusUnprocessableEntity, "The content does not fit"},
	{"invalid_id", http.StatusUnprocessableEntity, "The id is not valid"},
	{"invalid_message", http.StatusUnprocessableEntity, "The message can't be taken"},
	{"invalid_progress", http.StatusUnprocessableEntity, "The progress can't be taken"},
	{"invalid_reason", http.StatusUnprocessableEntity, "The reason is too long"},
	{"invalid_grant", http.StatusUnprocessableEntity, "The grant is not valid"},
	{"invalid_ref", http.StatusUnprocessableEntity, "What is looked for is not named"},
	{"invalid_cursor", http.StatusUnprocessableEntity, "The cursor is none of this session"},
	{"invalid_deadline", http.StatusUnprocessableEntity, "The deadline is not valid"},
	{"invalid_spawn", http.StatusUnprocessableEntity, "The handle can't be begun"},
	{"invalid_wait", http.StatusUnprocessableEntity, "The wait handle can't take this"},
	{"invalid_wait_cursor", http.StatusUnprocessableEntity, "The cursor is none of this list"},
	{"no_id", http.StatusUnprocessableEntity, "The event has no id"},
	{"too_many", http.StatusTooManyRequests, "There are too many requests"},
	{"too_many_streams", http.StatusTooManyRequests, "There are too many streams"},
	{"queue_full", http.StatusTooManyRequests, "No more messages may wait"},
	{"headers_too_large", http.StatusRequestHeaderFieldsTooLarge, "The headers are too large"},
	{"damaged", http.StatusInternalServerError, "A stored record is damaged"},
	{"unknown_agent", http.StatusInternalServerError, "The session's agent is not here"},
	{"not_shared", http.StatusInternalServerError, "The engine takes part in no transaction"},
	{"model", http.StatusBadGateway, "The model refuses the request"},
	{"not_yet_known", http.StatusServiceUnavailable, "It is not known yet"},
	{"not_kept", http.StatusServiceUnavailable, "It is not known yet, and can't be kept"},
	{"busy", http.StatusServiceUnavailable, "The session is driven elsewhere"},
	{"closing", http.StatusServiceUnavailable, "The service is about to stop"},
	{"undecided", http.StatusServiceUnavailable, "Whether it is allowed is not known now"},
	{"lease_lost", http.StatusServiceUnavailable, "The drive has lost the session"},
	{"stale", http.StatusServiceUnavailable, "Another commit came first"},
	{"newer_version", http.StatusServiceUnavailable, "A record is of a newer version"},
	{"no_answer", http.StatusServiceUnavailable, "The store has not answered in time"},
	{"uncertain", http.StatusServiceUnavailable, "It may have been taken, or not"},
	{"model_unavailable", http.StatusServiceUnavailable, "The model can't answer now"},
	{"unavailable", http.StatusServiceUnavailable, "It could not be taken now"},
}

// classes is the table of the errors that have a problem of their own. The
// first that matches counts: a cancelled call is a settled one, too.
var classes = []struct {
	err  error
	code string
}{
	// What was refused after a write that is uncertain may have been taken by it.
	{session.ErrNoAnswer, "no_answer"}, // uncertain, too, where it was a write
	{kvstore.ErrUncertain, "uncertain"},
	{runner.ErrBadToken, "bad_token"},
	{ErrUnverified, "unverified"},
	{runner.ErrTokenExpired, "token_expired"},
	{runner.ErrNotAllowed, "not_allowed"},
	{runner.ErrUndecided, "undecided"},
	{session.ErrWrongUser, "wrong_user"},
	{session.ErrDeleted, "deleted"},
	{session.ErrUnknownSession, "unknown_session"},
	{session.ErrUnknownCall, "unknown_call"},
	{session.ErrUnknownPause, "unknown_pause"},
	{session.ErrUnknownEvent, "unknown_event"},
	{session.ErrUnknownMessage, "unknown_message"},
	{session.ErrMailboxFull, "mailbox_full"},
	{session.ErrQueueFull, "queue_full"},
	{session.ErrResumeConflict, "conflict"},
	{session.ErrCancelled, "cancelled"},
	{session.ErrExpired, "expired"},
	{session.ErrSettled, "settled"},
	{session.ErrInvalidResumePayload, "invalid"},
	{session.ErrInvalidID, "invalid_id"},
	{session.ErrInvalidMessage, "invalid_message"},
	{runner.ErrInvalidProgress, "invalid_progress"},
	{runner.ErrLongReason, "invalid_reason"},
	{runner.ErrInvalidGrant, "invalid_grant"},
	{runner.ErrInvalidRef, "invalid_ref"},
	{runner.ErrInvalidCursor, "invalid_cursor"},
	{session.ErrInvalidDeadline, "invalid_deadline"},
	{session.ErrPauseRequired, "pause_required"},
	{session.ErrAmbiguousKey, "ambiguous_key"},
	{session.ErrNotPaused, "not_paused"},
	{session.ErrOtherSender, "other_sender"},
	{session.ErrNotApprover, "not_approver"},
	{session.ErrOtherGate, "other_gate"},
	{session.ErrPending, "pending"},
	{session.ErrMessageConflict, "message_conflict"},
	{session.ErrNotYetKnown, "not_yet_known"},
	{session.ErrNotKept, "not_kept"},
	{session.ErrUnknownHandle, "unknown_handle"},
	{runner.ErrUnknownWait, "unknown_wait"},
	{runner.ErrWaitTaken, "wait_taken"},
	{runner.ErrWaitEnded, "wait_ended"},
	{runner.ErrWaitChangesGone, "wait_changes_gone"},
	{runner.ErrWaitCursor, "invalid_wait_cursor"},
	{runner.ErrInvalidWait, "invalid_wait"},
	{session.ErrNoDeadLetter, "no_dead_letter"},
	{session.ErrNotShared, "not_shared"},
	{session.ErrChild, "child"},
	{session.ErrNameTaken, "name_taken"},
	{session.ErrNoUndo, "no_undo"},
	{runner.ErrSpawnConflict, "spawn_conflict"},
	{runner.ErrInvalidSpawn, "invalid_spawn"},
	{runner.ErrHandleStopped, "handle_stopped"},
	{runner.ErrNotYours, "not_yours"},
	{runner.ErrNoInput, "no_input"},
	{runner.ErrGivenKeys, "given_keys"},
	{session.ErrBusy, "busy"},
	{session.ErrFenced, "lease_lost"},
	{session.ErrStale, "stale"},
	{session.ErrNewerVersion, "newer_version"},
	{session.ErrCorrupt, "damaged"},
	{kvstore.ErrCorrupt, "damaged"},
	{runner.ErrUnknownAgent, "unknown_agent"},
	{runner.ErrClosed, "closing"},
	{kvstore.ErrClosed, "closing"},
}

// classify returns the problem that an error is.
func classify(err error) kind {
	if p, ok := errors.AsType[Problem](err); ok { // another server's
		if http.StatusText(p.Status) == "" || p.Status < 400 {
			return kindOf(p.code())
		}
		return kind{p.code(), p.Status, p.Title}
	}
	if e := httpin.AsRefusal(err); e != nil {
		return kindOf(e.Code)
	}
	var limit *httpin.Limited
	if errors.As(err, &limit) {
		return kindOf("too_many")
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return kindOf(c.code)
		}
	}
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return kindOf("too_large")
	}
	var model *llm.Error
	if errors.As(err, &model) {
		if model.Retryable() {
			return kindOf("model_unavailable")
		}
		return kindOf("model")
	}
	return kindOf("unavailable")
}

// kindOf returns the problem of a code. That each code is in the table, a test
// sees.
func kindOf(code string) kind {
	for _, k := range kinds {
		if k.code == code {
			return k
		}
	}
	return kinds[len(kinds)-1]
}
