package session

import (
	"context"
	"fmt"
)

// awaitedWaits returns what is wrong with an await of wait handles of a wider
// scope: it has counted otherwise than its receipts tell.
func (c *check) awaitedWaits(ctx context.Context, st *State, call *Call) (what string, err error) {
	a := call.Pause.Await
	list, err := c.store.Awaited(ctx, st.ID, a)
	if err != nil {
		return "", err
	}
	all := 0
	for n, w := range list {
		found, err := c.store.read(ctx, waitReceiptKey(st.ID, call.ID, call.Pauses, n),
			new(waitReceipt))
		if err != nil {
			return "", err
		}
		if w.All && !found {
			all++
		}
	}
	if a.All != all {
		return fmt.Sprintf("it awaits %d wait handles more, and by its receipts it is %d", a.All, all), nil
	}
	return "", nil
}
