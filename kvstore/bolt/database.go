package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/fermata-ai/fermata/kvstore"
)

// database is a bbolt database that doesn't panic.
type database struct {
	path   string
	file   *os.File // bbolt's own
	db     *bbolt.DB
	wedged atomic.Bool // a panic left bbolt's locks held: to ask it for anything would hang
}

// openDatabase is bbolt.Open, with errors that name the path and tell the
// file's own faults from others.
func openDatabase(path string, mode os.FileMode, o bbolt.Options) (*database, error) {
	d := &database{path: path}
	o.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		d.file, err = os.OpenFile(name, flag, mode)
		return d.file, err
	}
	err := guard(path, func() (err error) {
		d.db, err = bbolt.Open(path, mode, &o)
		return err
	})
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, berrors.ErrTimeout):
		err = fmt.Errorf("%w: another process, or another Store in this one, has it open",
			ErrLocked)
	// Bbolt could read the file, and couldn't use it.
	case !fromSystem(err) && !errors.Is(err, kvstore.ErrCorrupt):
		err = &kvstore.CorruptError{Store: path, Err: err}
	}
	if d.file != nil {
		d.abandon() // if bbolt panicked; else it has closed the file, and this does nothing
	}
	return nil, fmt.Errorf("kvstore/bolt: open %s: %w", path, err)
}

func fromSystem(err error) bool {
	var inFile *fs.PathError
	var errno syscall.Errno
	return errors.As(err, &inFile) || errors.As(err, &errno)
}

// view runs f in a read transaction.
func (d *database) view(f func(*bbolt.Tx) error) error { return d.transact(d.db.View, f) }

// update runs f in a write transaction, and commits it unless f fails or
// panics.
func (d *database) update(f func(*bbolt.Tx) error) error { return d.transact(d.db.Update, f) }

func (d *database) transact(run func(func(*bbolt.Tx) error) error, f func(*bbolt.Tx) error) error {
	if d.wedged.Load() {
		return &kvstore.CorruptError{Store: d.path,
			Err: errors.New("bbolt can't go on after an earlier panic")}
	}
	var tx *bbolt.Tx
	panicked := true
	err := guard(d.path, func() error {
		err := run(func(t *bbolt.Tx) error {
			tx = t
			return f(t)
		})
		panicked = false
		return err
	})
	// It panicked in its beginning, or again in its end.
	if panicked && (tx == nil || tx.DB() != nil) {
		d.wedged.Store(true)
	}
	return err
}

// close waits for transactions that are open, and gives up the file and its
// lock.
func (d *database) close() error {
	if d.wedged.Load() {
		return d.abandon()
	}
	return guard(d.path, d.db.Close)
}

// abandon gives up the file where bbolt can't. The mapping stays, as it may
// still be read.
func (d *database) abandon() error {
	unlock(d.file)
	return d.file.Close()
}

// guard runs f, and makes an error of a panic: bbolt panics on pages that
// aren't what they should be, and to read the mapping where there is no file is
// a fault, which the runtime can be told to make a panic. Only f's own
// goroutine is guarded, which is why nothing here has bbolt start one.
func guard(path string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		// What the runtime makes of a fault; its text speaks of nil pointers.
		case interface{ Addr() uintptr }:
			err = &kvstore.CorruptError{Store: path,
				Err: errors.New("bbolt was led outside the file, which is cut off or has a damaged page")}
		default:
			err = &kvstore.CorruptError{Store: path, Err: fmt.Errorf("bbolt panicked: %v", p)}
		}
	}()
	return f()
}
