package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Compact copies the store at src to a new file at dst, without the space that
// src no longer needs. Revisions and incarnation go on where they were. No
// process may have src open ([ErrLocked]). Dst must not exist; it appears when
// it is complete and on the disk. To put it in src's place is the caller's to
// do, with os.Rename, before any process opens src again.
func Compact(dst, src string) (err error) {
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("kvstore/bolt: compact: %w",
			&fs.PathError{Op: "create", Path: dst, Err: fs.ErrExist})
	}
	from, info, err := openForReading(src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close()) }()

	work := dst + ".compacting"
	if err := os.Remove(work); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kvstore/bolt: compact: %w", err) // an earlier one that was cut off
	}
	if err := copyCompact(work, from, info.Mode().Perm()); err != nil {
		return errors.Join(fmt.Errorf("kvstore/bolt: compact %s to %s: %w", src, dst, err),
			os.Remove(work))
	}
	if err := os.Rename(work, dst); err != nil {
		return fmt.Errorf("kvstore/bolt: compact: %w", err)
	}
	return syncDirectory(filepath.Dir(dst))
}

func copyCompact(path string, from *database, mode os.FileMode) error {
	const transaction = 8 << 20 // bytes that are copied in one
	to, err := openDatabase(path, mode, (&Options{}).bbolt())
	if err != nil {
		return err
	}
	err = guard(from.path, func() error { return bbolt.Compact(to.db, from.db, transaction) })
	return errors.Join(err, to.close())
}

// Check reads every entry of the store at path, and returns the first damage
// that it meets as a [kvstore.CorruptError]. No process may have the store open.
// It changes nothing.
func Check(path string) (err error) {
	d, _, err := openForReading(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return d.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(entriesBucket).ForEach(func(key, stored []byte) error {
			_, _, err := unseal(path, key, stored)
			return err
		})
	})
}

// openForReading opens a store that must exist, beside others who only read.
func openForReading(path string) (*database, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("kvstore/bolt: %w", err)
	}
	o := (&Options{}).bbolt()
	o.ReadOnly = true
	d, err := openDatabase(path, 0, o)
	if err != nil {
		return nil, nil, err
	}
	err = d.view(func(tx *bbolt.Tx) error {
		if err := whole(d, tx); err != nil {
			return err
		}
		return ours(tx)
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("kvstore/bolt: open %s: %w", path, err), d.close())
	}
	return d, info, nil
}
