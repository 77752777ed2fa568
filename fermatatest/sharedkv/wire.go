package sharedkv

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fermata-ai/fermata/kvstore"
)

// A frame is a length, of four bytes, and so many bytes of JSON. A client's
// first frame has its name; each further one is a request. The server sends an
// answer to each, in any order.

// request is one call of a Store, or signals; one of the four is set.
type request struct {
	ID     uint64
	Get    []byte         `json:",omitempty"`
	Scan   *kvstore.Range `json:",omitempty"`
	Apply  *kvstore.Batch `json:",omitempty"`
	Signal []string       `json:",omitzero"`
}

// response answers a request; without an ID it brings signals.
type response struct {
	ID       uint64
	Time     time.Time        `json:",omitzero"` // the server's
	Signal   []string         `json:",omitempty"`
	Entry    *kvstore.Entry   `json:",omitempty"`
	Page     *kvstore.Page    `json:",omitempty"`
	Revision kvstore.Revision `json:",omitempty"`
	Error    *failure         `json:",omitempty"`
}

// failure is an error on its way: its text, and which of the engine's it is.
type failure struct {
	Text string
	Is   int // the place in known; -1: none of them
}

// known are the errors that callers tell apart.
var known = []error{
	kvstore.ErrNotFound, kvstore.ErrConflict, kvstore.ErrTooLarge, kvstore.ErrInvalid,
	kvstore.ErrUncertain, kvstore.ErrClosed,
	kvstore.ErrCorrupt,
}

func failureOf(err error) *failure {
	for i, k := range known {
		if errors.Is(err, k) {
			return &failure{err.Error(), i}
		}
	}
	return &failure{err.Error(), -1}
}

func (f *failure) Error() string { return f.Text }

// Unwrap returns the engine's error that it was.
func (f *failure) Unwrap() error {
	if f.Is < 0 || f.Is >= len(known) {
		return nil
	}
	return known[f.Is]
}

// maxFrame is more than any batch or page takes, in bytes.
const maxFrame = 8 << 20

// writeFrame sends v in one piece.
func writeFrame(conn net.Conn, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func readFrame(r *bufio.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("sharedkv: a frame of %d bytes, the limit is %d", n, maxFrame)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return json.Unmarshal(body, v)
}
