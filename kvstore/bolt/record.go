package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/fermata-ai/fermata/kvstore"
)

// A stored value is its revision (8 bytes, big endian), a checksum (4), and the
// caller's bytes. The checksum, CRC-32C over key, caller's bytes and revision,
// is what tells damage from data: bbolt has none on its pages, and an answer
// with a flipped bit must never be read as an approval.
const overhead = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is an entry to be written. It is made, and most of its checksum
// counted, by the caller of Apply, so that the leader who commits it has little
// to do, and never touches that caller's memory.
type record struct {
	key    []byte
	stored []byte
	sum    uint32 // over key and value
}

// newRecord copies p.
func newRecord(p kvstore.Put) record {
	buf := make([]byte, len(p.Key)+overhead+len(p.Value))
	k := copy(buf, p.Key)
	copy(buf[k+overhead:], p.Value)
	return record{key: buf[:k:k], stored: buf[k:], sum: checksum(p.Key, p.Value)}
}

// seal gives the record its revision.
func (r *record) seal(revision uint64) {
	binary.BigEndian.PutUint64(r.stored, revision)
	binary.BigEndian.PutUint32(r.stored[8:], crc32.Update(r.sum, castagnoli, r.stored[:8]))
}

// unseal takes apart what is stored under key. The value is not a copy.
func unseal(path string, key, stored []byte) (value []byte, revision kvstore.Revision, err error) {
	damaged := func(err error) error {
		return &kvstore.CorruptError{Store: path, Key: append([]byte(nil), key...), Err: err}
	}
	if len(stored) < overhead {
		return nil, 0, damaged(fmt.Errorf("%d bytes, an entry has at least %d", len(stored),
			overhead))
	}
	value = stored[overhead:]
	if crc32.Update(checksum(key, value), castagnoli,
		stored[:8]) != binary.BigEndian.Uint32(stored[8:]) {
		return nil, 0, damaged(errors.New("the checksum is wrong"))
	}
	return value, kvstore.Revision(binary.BigEndian.Uint64(stored)), nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}
