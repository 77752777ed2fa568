package session

import "fmt"

// What a session remembers of its user's messages: those that came with an id
// are told from new ones when they come again.

// userMessage is what is kept of a user's message that came with an id.
type userMessage struct {
	Hash   string `json:"hash"`
	Number int    `json:"number"`          // in the history; -1: it isn't there, as an answer isn't
	Queued bool   `json:"queued,omitzero"` // it waits in the queue
	// Refused is why it was taken off the queue, and lost its place.
	Refused string `json:"refused,omitzero"`
	// Of an answer to a pause below the session, until that has it for certain.
	Session string `json:"session,omitzero"`
	Pause   string `json:"pause,omitzero"`
}

// PauseRef names a pause of a session.
type PauseRef struct{ Session, Pause string }

func (u *userMessage) check() error {
	if u.Hash == "" || u.Number < -1 || (u.Session == "") != (u.Pause == "") ||
		u.Number >= 0 && (u.Queued || u.Refused != "") || u.Queued && u.Refused != "" {
		return errIncomplete
	}
	return nil
}

// Said reports whether a user's message of that id was accepted before. If its
// content was another one, the error is ErrMessageConflict. If it was passed on
// to a pause below the session, and may not have arrived, to is that pause.
func (tx *Tx) Said(messageID, hash string) (said bool, to PauseRef, err error) {
	if messageID == "" {
		return false, to, nil
	}
	var u userMessage
	found, err := tx.read(userMessageKey(tx.ID, messageID), &u)
	switch {
	case err != nil || !found:
		return false, to, err
	case u.Hash != hash:
		return false, to, fmt.Errorf("%w: message %q of session %q",
			ErrMessageConflict, messageID, tx.ID)
	case u.Queued: // a driver takes it where it goes
		return true, to, nil
	}
	return true, PauseRef{u.Session, u.Pause}, nil
}

// Heard remembers a user's message that was taken for an answer, and is not in
// the history. To is the pause that it is still to be passed on to, if that is
// one below the session.
func (tx *Tx) Heard(messageID, hash string, to PauseRef) {
	if messageID != "" {
		tx.putJSON(userMessageKey(tx.ID, messageID),
			userMessage{Hash: hash, Number: -1, Session: to.Session, Pause: to.Pause})
	}
}

// Unheard forgets a message that the pause it was passed on to has refused.
func (tx *Tx) Unheard(messageID string) {
	if messageID != "" {
		tx.delete(userMessageKey(tx.ID, messageID))
	}
}
