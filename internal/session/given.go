package session

import "github.com/fermata-ai/fermata/tool"

// What is given to a handle is named by its delivery, whatever takes it: the
// mailbox of its call, or a pause. So the receipt of an answer that was given so
// stands among those of the call's events as well, as the input of that id. The
// caller who looks at the handle first may see another state than the commit
// finds, and the same input would count twice.

// Give is Answer for what is given to a handle. The hash is that of what was
// given, of which the answer's payload may be another form.
func (tx *Tx) Give(in *Incoming, hash string, fits Fits) (Receipt, error) {
	call, _ := splitPause(in.Pause)
	first, found, err := tx.mailReceipt(call, tool.InputEvent, in.Delivery)
	first.Event.Name, first.Event.ID = "", "" // unless it was one
	switch {
	case err != nil:
		return Receipt{}, err
	case found && first.Hash != hash:
		first.Err = &ConflictError{Receipt: first}
		return first, nil
	case found:
		first.Duplicate = true
		return first, nil
	}
	rc, err := tx.Answer(in, fits)
	if err != nil || rc.Err != nil {
		return rc, err
	}
	given := rc
	// That it was equal to what had answered the pause is told the same way
	// again, and not taken for the answer to the next question.
	given.Duplicate, given.Fate = false, ""
	given.Hash, given.Actor, given.Delivery, given.At = hash, in.Actor, in.Delivery, tx.Now
	given.Kind, given.Event = in.Kind, EventID{Name: tool.InputEvent, ID: in.Delivery}
	tx.touch()
	tx.putJSON(mailReceiptKey(tx.ID, call, tool.InputEvent, in.Delivery), (*storedReceipt)(&given))
	return rc, nil
}
