package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fermata-ai/fermata/kvstore"
)

// The file has two buckets. Both use their sequence number, which bbolt keeps
// in the bucket's header anyway: that of the entries is the last revision, that
// of the format is the incarnation.
var (
	formatBucket  = []byte("fermata")
	entriesBucket = []byte("entries")
	versionKey    = []byte("version")
)

const version = "1" // of the file's layout

// Open opens the file at path; a file that doesn't exist, or is empty, becomes
// a new store. Errors: [ErrLocked], after Options.LockTimeout; a
// [kvstore.CorruptError]; the operating system's. All name the path.
func Open(path string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path, o); err != nil {
			return nil, err
		}
	}
	db, err := openDatabase(path, o.mode(), o.bbolt())
	if err != nil {
		return nil, err
	}
	s := newStore(db)
	if err := s.begin(); err != nil {
		db.close()
		return nil, fmt.Errorf("kvstore/bolt: open %s: %w", path, err)
	}
	return s, nil
}

// create makes a store beside path, and gives it that name when it is complete
// and on the disk: neither a crash nor a full disk leaves a part of one. If
// another process is faster, its file is the store. Where files can't have two
// names, Open makes it in place.
func create(path string, o *Options) error {
	work := fmt.Sprintf("%s.new-%x", path, rand.Uint64())
	defer os.Remove(work)
	db, err := openDatabase(work, o.mode(), o.bbolt())
	if err != nil {
		var named *fs.PathError
		if errors.As(err, &named) { // it names a file that the caller doesn't know
			err = named.Err
		}
		return fmt.Errorf("kvstore/bolt: create %s: %w", path, err)
	}
	if err := errors.Join(db.update(format), db.close()); err != nil {
		return fmt.Errorf("kvstore/bolt: create %s: %w", path, err)
	}
	if err := os.Link(work, path); err != nil {
		return nil
	}
	return syncDirectory(filepath.Dir(path))
}

func (o *Options) mode() os.FileMode {
	if o.Mode == 0 {
		return 0o600
	}
	return o.Mode
}

func (o *Options) bbolt() bbolt.Options {
	wait := o.LockTimeout
	switch {
	case wait == 0:
		wait = 2 * time.Second
	case wait < 0:
		wait = 1 // bbolt takes zero for ever
	}
	return bbolt.Options{
		Timeout: wait,
		// Statistics take a lock that all readers share.
		NoStatistics: true,
		// The free pages are listed in an array, which is written with each
		// commit: both as bbolt has it by default. A hash map that isn't
		// written commits twice as fast once a file of gigabytes is mostly free
		// pages. But then each Open, and each commit that fails, reads the
		// whole tree, in a goroutine of bbolt's, where a damaged page ends the
		// process; with the list in the file it is an error. A file in that
		// state wants Compact anyway. The map with the writing is the slowest
		// of all.
		FreelistType:   bbolt.FreelistArrayType,
		NoFreelistSync: false,
	}
}

// begin starts an incarnation, once it is sure of the file.
func (s *Store) begin() error {
	if err := settle(s.db); err != nil {
		return err
	}
	return s.db.update(func(tx *bbolt.Tx) error {
		if err := whole(s.db, tx); err != nil {
			return err
		}
		if err := format(tx); err != nil {
			return err
		}
		if err := ours(tx); err != nil {
			return err
		}
		s.synced.durable.Store(tx.Bucket(entriesBucket).Sequence())
		incarnation, err := tx.Bucket(formatBucket).NextSequence()
		s.incarnation = incarnation
		return err
	})
}

// format makes a store of a database that is empty.
func format(tx *bbolt.Tx) error {
	if first, _ := tx.Cursor().First(); first != nil {
		return nil
	}
	if _, err := tx.CreateBucket(entriesBucket); err != nil {
		return err
	}
	b, err := tx.CreateBucket(formatBucket)
	if err != nil {
		return err
	}
	return b.Put(versionKey, []byte(version))
}

// whole makes sure that the file has all its bytes.
func whole(d *database, tx *bbolt.Tx) error {
	info, err := d.file.Stat()
	if err != nil {
		return err
	}
	if size := tx.Size(); info.Size() < size {
		return &kvstore.CorruptError{Store: d.path,
			Err: fmt.Errorf("the file is cut off: it has %d bytes of %d", info.Size(), size)}
	}
	return nil
}

// ours makes sure that the file is a store of this package.
func ours(tx *bbolt.Tx) error {
	b := tx.Bucket(formatBucket)
	if b == nil || tx.Bucket(entriesBucket) == nil {
		return errors.New("a bbolt file, but no store of fermata")
	}
	if v := b.Get(versionKey); string(v) != version {
		return fmt.Errorf("its layout has version %q, this program knows %q", v, version)
	}
	return nil
}

// settle writes the file's two headers once more, as they are, and syncs them.
// A header whose sync failed, in an earlier life of the store, is in the
// operating system's cache, passes for written there, and isn't on the disk; to
// build on it without this could overwrite what the header on the disk refers
// to.
func settle(d *database) error {
	headers := make([]byte, 2*d.db.Info().PageSize)
	if _, err := d.file.ReadAt(headers, 0); err != nil {
		return err
	}
	if _, err := d.file.WriteAt(headers, 0); err != nil {
		return err
	}
	return d.file.Sync()
}

// syncDirectory makes a new file's name as durable as its contents.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it can't be done there, and needn't
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
