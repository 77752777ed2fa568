package session

import "context"

// EndMoment has the call go on that began a handle and waits a moment for what
// comes of it: there is something. It returns the session of that call; empty:
// none waits.
func (s *Store) EndMoment(ctx context.Context, child string) (string, error) {
	st, err := s.Load(ctx, child)
	if err != nil || !st.isHandle() {
		return "", err
	}
	parent := st.Parent.step().Session
	above, err := s.Load(ctx, parent)
	if err != nil || above.moment(child) == "" {
		return "", err
	}
	return parent, s.tell(ctx, parent, func(tx *Tx) error { return tx.endMoment(child) })
}

// endMoment is Store.EndMoment at the session of the call.
func (tx *Tx) endMoment(child string) error {
	call := tx.moment(child)
	if call == "" {
		return nil
	}
	c, err := tx.live(call)
	if err != nil || c.Status != Pending {
		return err
	}
	tx.goOnFrom(c, &Answer{})
	return nil
}

// moment returns the call that began a handle and waits for it; empty: none
// does.
func (s *State) moment(child string) string {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Action == ActionSpawn && c.Status == Pending && c.Pause.Await != nil &&
			HandleID(c.ID) == child {
			return c.ID
		}
	}
	return ""
}
